// An argument type of a user could pass any address to a kernel that writes.

use trijet::{Args, Result};
use trijet::kernels::ArgsFor;

struct Raw(u64);

impl<'a> ArgsFor<'a, (u64,)> for Raw {
    fn push_all(self, args: &mut Args<'_>) -> Result<()> {
        *args = Args::new().scalar(self.0)?;
        Ok(())
    }
}

fn main() -> Result<()> {
    drop(Raw(7));
    Ok(())
}
