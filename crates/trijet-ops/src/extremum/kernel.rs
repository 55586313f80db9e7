//! The kernels of minima and maxima: an entry for each size of keys.

use super::twin;
use crate::keys::Keys;
use crate::window::{Place, Reach, TWIN_ROWS};
use trijet::kernels::median::Edges;
use trijet::kernels::{ArgBlock, Code, Cost, KernelSpec, Read, Shape, Tile, Twin, Write};
use trijet::{Kernel, LaunchConfig, Result};

/// The device code, generated from `extremum.cu`.
const PTX: &str = include_str!("extremum.ptx");

/// The number of rows of a tile, `TILE_ROWS` in `extremum.cu`.
const TILE_ROWS: u64 = 32;

/// The largest radius along each axis, `RADIUS_MAX` in `extremum.cu`.
pub(super) const RADIUS_MAX: u32 = 31;

/// The parameters of a kernel: `(place, x, y, keys, radius, edges, invert)`. All bits of `invert`
/// are set for maxima, and none for minima.
pub(super) type ExtremumParams = ([u64; 5], Read<u8>, Write<u8>, [u64; 2], [u32; 3], u32, u64);

/// The kernel for keys of `bits` bits.
pub(super) fn kernel(bits: u32) -> &'static Kernel<ExtremumParams> {
    match bits {
        8 => &EXTREMUM_8,
        16 => &EXTREMUM_16,
        32 => &EXTREMUM_32,
        _ => &EXTREMUM_64,
    }
}

fn reach(args: &ArgBlock) -> std::result::Result<Reach, String> {
    let number = args.scalar::<u32>(7);
    let edges = Edges::numbered(number)
        .ok_or_else(|| format!("{number} is not the number of an `Edges`"))?;
    Ok(Reach { radius: args.scalar(6), edges })
}

fn check<const BITS: u32>(args: &ArgBlock) -> std::result::Result<(), String> {
    let reach = reach(args)?;
    let radius = reach.radius;
    if radius.iter().any(|&r| r > RADIUS_MAX) {
        return Err(format!("the radius is {radius:?}, and the kernel has room for {RADIUS_MAX}"));
    }
    Place::from_words(args.scalar(0)).check(args, u64::from(BITS / 8), reach)
}

fn shape<const BITS: u32>(args: &ArgBlock) -> Result<LaunchConfig> {
    let place = Place::from_words(args.scalar(0));
    let rows = place.rows(args.spans()[1].bytes(), u64::from(BITS / 8));
    let columns = if BITS == 64 { 32 } else { 64 };
    Ok(place.config(rows, columns, TILE_ROWS))
}

fn tile_elements<const BITS: u32>(args: &ArgBlock) -> u64 {
    let width = Place::from_words(args.scalar(0)).volumes.width;
    width.saturating_mul(u64::from(BITS / 8) * TWIN_ROWS)
}

fn run<const BITS: u32>(tile: &mut Tile<'_>) {
    let first = tile.first as u64;
    let (place, x, y, keys, radius, edges, invert) = tile.args::<ExtremumParams>();
    let edges = Edges::numbered(edges).expect("the check refuses an unknown number");
    let mut place = Place::from_words(place);
    place.first_out += place.rows(first, u64::from(BITS / 8));
    let choose = if invert == 0 { u64::min } else { u64::max };
    twin::extremum(&place, Reach { radius, edges }, Keys::from_words(BITS, keys), choose, x, y);
}

/// The cost of a launch: about 40 instructions for each element, and a load for each image of a
/// window, of the elements that a tile reads around its own.
fn cost<const BITS: u32>(args: &ArgBlock) -> Cost {
    let bytes = args.spans().iter().map(|arg| arg.bytes()).sum();
    let [z, y, x] = args.scalar::<[u32; 3]>(6).map(u64::from);
    let elements = args.spans()[1].bytes() / u64::from(BITS / 8);
    let read = (64 + 2 * x) * (TILE_ROWS + 2 * y) * (2 * z + 1) / (64 * TILE_ROWS);
    Cost { bytes, ops: elements * (40 + 16 * read) }
}

macro_rules! declared {
    ($bits:literal, $name:literal) => {
        // SAFETY: each `extremum_<bits>` takes (Place, const u8*, u64, u8*, u64, Keys, Radius, u32,
        // u64), with the sizes of the arrays of the declaration. The entry reads only `x[..x_len]`,
        // holds its indices to the rows of x, and writes only `y[..y_len]`. Its shared memory has
        // room for the largest radius that the check accepts. False if `RADIUS_MAX` grows here
        // alone.
        unsafe {
            let shape = Shape::Computed(shape::<$bits>);
            let twin = Twin {
                tile_elements: tile_elements::<$bits>,
                run: run::<$bits>,
                cost: cost::<$bits>,
            };
            let spec = KernelSpec::new($name, Code::ptx(PTX), shape);
            Kernel::declare(spec.check(check::<$bits>).twin(twin))
        }
    };
}

static EXTREMUM_8: Kernel<ExtremumParams> = declared!(8, "extremum_8");
static EXTREMUM_16: Kernel<ExtremumParams> = declared!(16, "extremum_16");
static EXTREMUM_32: Kernel<ExtremumParams> = declared!(32, "extremum_32");
static EXTREMUM_64: Kernel<ExtremumParams> = declared!(64, "extremum_64");

#[cfg(test)]
mod tests {
    use super::{PTX, kernel};

    #[test]
    fn every_size_of_keys_has_its_entry_in_the_ptx() {
        for bits in [8, 16, 32, 64] {
            let name = kernel(bits).name();
            assert_eq!(name, format!("extremum_{bits}"));
            assert!(PTX.contains(&format!(".entry {name}(")), "{name}");
        }
    }
}
