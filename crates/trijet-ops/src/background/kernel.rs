//! The kernel that subtracts a background.

use crate::call::line;
use crate::elements::{Element, RealType, elements, with_element};
use trijet::Kernel;
use trijet::kernels::{ArgBlock, Code, Cost, KernelSpec, Read, Shape, Tile, Twin, Update};

/// The device code, generated from `background.cu`.
const PTX: &str = include_str!("background.ptx");

/// The number of bytes that a call of the twin computes. A multiple of the size of every element.
const TILE_BYTES: u64 = 64 * 1024;

/// The parameters: `(type, x, y)`.
type SubtractParams = (u32, Read<u8>, Update<u8>);

fn bytes_of(args: &ArgBlock) -> std::result::Result<u64, String> {
    let number = args.scalar::<u32>(0);
    let found = RealType::numbered(number).map(RealType::bytes);
    found.ok_or_else(|| format!("{number} is not the number of a type"))
}

fn check(args: &ArgBlock) -> std::result::Result<(), String> {
    let bytes = bytes_of(args)?;
    let [x, y] = args.spans() else { return Err("two spans are expected".to_owned()) };
    if x.bytes() == y.bytes() && x.bytes().is_multiple_of(bytes) {
        return Ok(());
    }
    let (x, y) = (x.bytes(), y.bytes());
    Err(format!("x has {x} bytes, and y {y}, of elements of {bytes} bytes"))
}

fn run(tile: &mut Tile<'_>) {
    let first = tile.first;
    let (number, x, y) = tile.args::<SubtractParams>();
    let real = RealType::numbered(number).expect("the check refuses an unknown number");
    let x = &x[first..first + y.len()];
    with_element!(real, T => {
        for (x, y) in elements::<T>(x).zip(y.chunks_exact_mut(T::BYTES)) {
            let background = T::from_bytes(y);
            if T::IS_INTEGER {
                let wrapped = (x.whole() - background.whole()).to_le_bytes();
                y.copy_from_slice(&wrapped[..T::BYTES]);
            } else {
                T::nearest(x.real() - background.real()).write(y);
            }
        }
    });
}

fn cost(args: &ArgBlock) -> Cost {
    let bytes = args.spans()[1].bytes();
    Cost { bytes: 3 * bytes, ops: 40 * bytes / bytes_of(args).unwrap_or(1) }
}

/// Subtracts y from x, into y.
pub(super) static SUBTRACT: Kernel<SubtractParams> = {
    let shape =
        Shape::Computed(|args| Ok(line(args.spans()[1].bytes() / bytes_of(args).unwrap_or(1))));
    let twin = Twin { tile_elements: |_| TILE_BYTES, run, cost };
    let spec = KernelSpec::new("subtract", Code::ptx(PTX), shape).check(check).twin(twin);
    // SAFETY: `subtract` takes (u32, const u8*, u64, u8*, u64), and reads and writes whole elements
    // of the type within both lengths. False if a caller passes addresses that are not aligned for
    // the elements: the operation checks them.
    unsafe { Kernel::declare(spec) }
};

#[cfg(test)]
mod tests {
    use super::{PTX, SUBTRACT};

    #[test]
    fn the_entry_is_in_the_ptx() {
        assert!(PTX.contains(&format!(".entry {}(", SUBTRACT.name())));
    }
}
