// An argument type of a user could pass any address to a kernel that writes.

use trijet::{Args, Result};

struct Raw(u64);

impl Raw {
    fn push_all(self, args: &mut Args<'_>) -> Result<()> {
        *args = Args::new().scalar(self.0)?;
        Ok(())
    }
}

fn main() -> Result<()> {
    Raw(7).push_all(&mut Args::new())
}
