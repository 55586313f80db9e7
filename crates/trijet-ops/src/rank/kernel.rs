//! The kernels of the filter: an entry for each size of keys and number of words of a window, and
//! one for the median of 3 x 3 x 3.

use super::twin;
use crate::keys::Keys;
use crate::window::{Place, Reach, TWIN_ROWS};
use trijet::kernels::median::Edges;
use trijet::kernels::{ArgBlock, Code, Cost, KernelSpec, Read, Shape, Tile, Twin, Write};
use trijet::{Kernel, LaunchConfig, Result};

/// The device code, generated from `rank.cu`.
const PTX: &str = include_str!("rank.ptx");

/// Maximum size of the dynamic shared memory of a block in bytes. It leaves 256 bytes of the 48 KiB
/// that every device has for static variables.
const SHARED_BYTES_MAX: u32 = 48 * 1024 - 256;

/// The largest number of rows of a tile.
const TILE_ROWS_MAX: u32 = 32;

/// The number of rows of a tile of the median of 3 x 3 x 3, `CUBE_ROWS` in `rank.cu`.
const CUBE_ROWS: u32 = 32;

/// The numbers of words of the entries.
const WORDS: [u32; 4] = [1, 3, 8, 13];

/// The parameters of a kernel: `(place, x, y, keys, radius, rank, edges, tile_rows)`.
pub(super) type RankParams = ([u64; 5], Read<u8>, Write<u8>, [u64; 2], [u32; 3], u32, u32, u32);

/// The kernel for keys of `bits` bits, windows of this radius and this rank.
pub(super) fn kernel(
    bits: u32,
    radius: [u32; 3],
    rank: u32,
) -> Option<&'static Kernel<RankParams>> {
    let size = [8, 16, 32, 64].iter().position(|&one| one == bits)?;
    if is_cube(radius, rank) {
        return Some(&CUBES[size]);
    }
    let words = words_of(radius)?;
    let class = WORDS.iter().position(|&most| words <= most)?;
    Some(&RANKS[size][class])
}

/// Whether this is the median of 3 x 3 x 3.
fn is_cube(radius: [u32; 3], rank: u32) -> bool {
    radius == [1; 3] && rank == 13
}

/// The number of words of a window: each word has as many rows of the window as fit into 32 bits.
fn words_of(radius: [u32; 3]) -> Option<u32> {
    let [z, y, x] = radius.map(|r| r.checked_mul(2)?.checked_add(1));
    let rows = z?.checked_mul(y?)?;
    let rows_of_word = 32_u32.checked_div(x?).filter(|&rows| rows > 0)?;
    Some(rows.div_ceil(rows_of_word))
}

/// The columns of a tile, which are whole words of 32 columns.
const fn columns(bits: u32) -> u32 {
    match bits {
        8 | 16 => 128,
        32 => 64,
        _ => 32,
    }
}

/// The size of the planes of one row of a tile in bytes.
const fn row_bytes(bits: u32) -> u32 {
    columns(bits) / 32 * bits * 8
}

/// The number of rows of a tile: as many as the shared memory has room for, up to 32.
pub(super) fn tile_rows(bits: u32, radius: [u32; 3], rank: u32) -> u32 {
    if is_cube(radius, rank) {
        return CUBE_ROWS;
    }
    let [z, y, _] = radius;
    let rows = SHARED_BYTES_MAX / row_bytes(bits) / (2 * z + 1);
    rows.saturating_sub(2 * y).min(TILE_ROWS_MAX)
}

/// The arguments of a launch other than the spans.
struct Given {
    place: Place,
    reach: Reach,
    rank: u32,
    tile_rows: u32,
}

fn given(args: &ArgBlock) -> std::result::Result<Given, String> {
    let number = args.scalar::<u32>(8);
    let edges = Edges::numbered(number)
        .ok_or_else(|| format!("{number} is not the number of an `Edges`"))?;
    Ok(Given {
        place: Place::from_words(args.scalar(0)),
        reach: Reach { radius: args.scalar(6), edges },
        rank: args.scalar(7),
        tile_rows: args.scalar(9),
    })
}

fn check<const BITS: u32, const WORDS_MAX: u32>(
    args: &ArgBlock,
) -> std::result::Result<(), String> {
    let Given { place, reach, rank, tile_rows: rows } = given(args)?;
    let radius = reach.radius;
    if words_of(radius).is_none_or(|words| words > WORDS_MAX) {
        return Err(format!("a window of radius {radius:?} has more than {WORDS_MAX} words"));
    }
    if rank >= reach.size() {
        return Err(format!("the rank is {rank}, of a window of {} elements", reach.size()));
    }
    if rows == 0 || rows != tile_rows(BITS, radius, rank) {
        return Err(format!("tiles of {rows} rows"));
    }
    place.check(args, u64::from(BITS / 8), reach)
}

fn check_cube<const BITS: u32>(args: &ArgBlock) -> std::result::Result<(), String> {
    let Given { place, reach, rank, tile_rows: rows } = given(args)?;
    if !is_cube(reach.radius, rank) || rows != CUBE_ROWS {
        return Err(format!("rank {rank} of radius {:?}, tiles of {rows} rows", reach.radius));
    }
    place.check(args, u64::from(BITS / 8), reach)
}

fn shape<const BITS: u32>(args: &ArgBlock) -> Result<LaunchConfig> {
    let (place, [z, y, _]) = (Place::from_words(args.scalar(0)), args.scalar::<[u32; 3]>(6));
    let tile_rows = args.scalar::<u32>(9);
    let rows = place.rows(args.spans()[1].bytes(), u64::from(BITS / 8));
    let shared = (2 * z + 1) * (tile_rows + 2 * y) * row_bytes(BITS);
    let config = place.config(rows, u64::from(columns(BITS)), u64::from(tile_rows));
    Ok(config.shared_bytes(shared))
}

fn shape_of_cube<const BITS: u32>(args: &ArgBlock) -> Result<LaunchConfig> {
    let place = Place::from_words(args.scalar(0));
    let rows = place.rows(args.spans()[1].bytes(), u64::from(BITS / 8));
    let columns = if BITS == 64 { 32 } else { 64 };
    Ok(place.config(rows, columns, u64::from(CUBE_ROWS)))
}

fn tile_elements<const BITS: u32>(args: &ArgBlock) -> u64 {
    let width = Place::from_words(args.scalar(0)).volumes.width;
    width.saturating_mul(u64::from(BITS / 8) * TWIN_ROWS)
}

fn run<const BITS: u32>(tile: &mut Tile<'_>) {
    let first = tile.first as u64;
    let (place, x, y, keys, radius, rank, edges, _) = tile.args::<RankParams>();
    let edges = Edges::numbered(edges).expect("the check refuses an unknown number");
    let mut place = Place::from_words(place);
    place.first_out += place.rows(first, u64::from(BITS / 8));
    twin::rank(&place, Reach { radius, edges }, rank, Keys::from_words(BITS, keys), x, y);
}

/// The cost of a launch. The instructions per element and plane, and the instructions per element
/// of a network, are estimated in `rank.cu`.
fn cost<const BITS: u32>(args: &ArgBlock) -> Cost {
    let bytes = args.spans().iter().map(|arg| arg.bytes()).sum();
    let radius = args.scalar::<[u32; 3]>(6);
    let [z, y, _] = radius.map(|r| u64::from(2 * r + 1));
    let words = u64::from(words_of(radius).unwrap_or_default());
    let elements = args.spans()[1].bytes() / u64::from(BITS / 8);
    if is_cube(radius, args.scalar(7)) {
        return Cost { bytes, ops: elements * 200 };
    }
    Cost { bytes, ops: elements * u64::from(BITS) * (8 * z * y + 6 * words) }
}

const fn twin<const BITS: u32>() -> Twin {
    Twin { tile_elements: tile_elements::<BITS>, run: run::<BITS>, cost: cost::<BITS> }
}

macro_rules! declared {
    ($bits:literal, $words:literal, $name:literal) => {
        // SAFETY: each `rank_<bits>_w<words>` takes (Place, const u8*, u64, u8*, u64, Keys, Radius,
        // u32, u32, u32), with the sizes of the arrays of the declaration. The entry reads only
        // `x[..x_len]`, holds its indices to the rows of x, and writes only `y[..y_len]`. The shape
        // gives it the shared memory for the tiles and the words that the check accepts. False if
        // the layout of `Place`, `Keys` or `Radius` changes in a .cuh file alone.
        unsafe {
            let shape = Shape::Computed(shape::<$bits>);
            let spec = KernelSpec::new($name, Code::ptx(PTX), shape);
            let spec = spec.shared_bytes_max(SHARED_BYTES_MAX);
            Kernel::declare(spec.check(check::<$bits, $words>).twin(twin::<$bits>()))
        }
    };
}

macro_rules! cube {
    ($bits:literal, $name:literal) => {
        // SAFETY: each `median_cube_<bits>` takes the arguments of `rank_<bits>_w1`, and has no
        // dynamic shared memory. It holds rows to the rows of x, and writes whole elements of y.
        // False if the layout of `Place` or `Keys` changes in a .cuh file alone.
        unsafe {
            let shape = Shape::Computed(shape_of_cube::<$bits>);
            let spec = KernelSpec::new($name, Code::ptx(PTX), shape);
            Kernel::declare(spec.check(check_cube::<$bits>).twin(twin::<$bits>()))
        }
    };
}

static CUBES: [Kernel<RankParams>; 4] = [
    cube!(8, "median_cube_8"),
    cube!(16, "median_cube_16"),
    cube!(32, "median_cube_32"),
    cube!(64, "median_cube_64"),
];

static RANKS: [[Kernel<RankParams>; 4]; 4] = [
    [
        declared!(8, 1, "rank_8_w1"),
        declared!(8, 3, "rank_8_w3"),
        declared!(8, 8, "rank_8_w8"),
        declared!(8, 13, "rank_8_w13"),
    ],
    [
        declared!(16, 1, "rank_16_w1"),
        declared!(16, 3, "rank_16_w3"),
        declared!(16, 8, "rank_16_w8"),
        declared!(16, 13, "rank_16_w13"),
    ],
    [
        declared!(32, 1, "rank_32_w1"),
        declared!(32, 3, "rank_32_w3"),
        declared!(32, 8, "rank_32_w8"),
        declared!(32, 13, "rank_32_w13"),
    ],
    [
        declared!(64, 1, "rank_64_w1"),
        declared!(64, 3, "rank_64_w3"),
        declared!(64, 8, "rank_64_w8"),
        declared!(64, 13, "rank_64_w13"),
    ],
];

#[cfg(test)]
mod tests {
    use super::{CUBES, PTX, RANKS, kernel, tile_rows};
    use trijet::Kernel;

    #[test]
    fn every_entry_is_in_the_ptx() {
        for kernel in RANKS.iter().flatten().chain(&CUBES) {
            assert!(PTX.contains(&format!(".entry {}(", kernel.name())), "{}", kernel.name());
        }
    }

    #[test]
    fn every_window_has_a_kernel_and_a_tile() {
        let planes = (0..=7).flat_map(|y| (0..=7).map(move |x| [0, y, x]));
        let volumes =
            (0..=3).flat_map(|z| (0..=3).flat_map(move |y| (0..=3).map(move |x| [z, y, x])));
        for radius in planes.chain(volumes) {
            for bits in [8, 16, 32, 64] {
                assert!(kernel(bits, radius, 0).is_some(), "{bits} {radius:?}");
                assert!(tile_rows(bits, radius, 0) > 0, "{bits} {radius:?}");
            }
        }
        let name = |radius, rank| kernel(16, radius, rank).map(Kernel::name);
        assert_eq!(name([3, 3, 3], 171), Some("rank_16_w13"));
        assert_eq!(name([7, 7, 7], 0), None);
    }

    #[test]
    fn only_the_median_of_a_cube_of_side_3_has_a_network() {
        let name = |radius, rank| kernel(16, radius, rank).map(Kernel::name);
        assert_eq!(name([1, 1, 1], 13), Some("median_cube_16"));
        assert_eq!(name([1, 1, 1], 12), Some("rank_16_w1"));
        assert_eq!(name([0, 2, 2], 13), Some("rank_16_w1"));
    }
}
