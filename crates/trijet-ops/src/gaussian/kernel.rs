//! The kernels of the passes: one for the images of each type, and one along the images.

use super::twin;
use super::weights::{RADIUS_MAX, Weights};
use crate::elements::{BF16, Element, F16, RealType};
use crate::window::{Place, Reach, TWIN_ROWS};
use trijet::kernels::median::Edges;
use trijet::kernels::{ArgBlock, Code, Cost, KernelSpec, Read, Shape, Tile, Twin, Write};
use trijet::{Kernel, LaunchConfig};

/// The device code, generated from `gaussian.cu`.
const PTX: &str = include_str!("gaussian.ptx");

/// The number of rows of a tile, `TILE_ROWS` in `gaussian.cu`.
const TILE_ROWS: u64 = 32;

/// The number of rows of a tile of a pass along the images, `STACK_ROWS` in `gaussian.cu`.
const STACK_ROWS: u64 = 16;

/// The parameters of the passes in images: `(place, x, y, radius, edges, y_weights, x_weights)`.
pub(super) type PlaneParams = ([u64; 5], Read<u8>, Write<u8>, [u32; 3], u32, Weights, Weights);

/// The parameters of the pass along the images: `(type, place, x, y, radius, edges, weights)`.
pub(super) type StackParams = (u32, [u64; 5], Read<u8>, Write<u8>, [u32; 3], u32, Weights);

/// The kernel of the passes in images of elements of this type.
pub(super) fn plane(real: RealType) -> Option<&'static Kernel<PlaneParams>> {
    PLANES.iter().find(|(one, _)| *one == real).map(|(_, kernel)| kernel)
}

/// Checks the spans and the window of a launch. The place is argument `index`.
fn check(
    args: &ArgBlock,
    index: usize,
    bytes: u64,
    axes: [bool; 3],
) -> std::result::Result<(), String> {
    let number = args.scalar::<u32>(index + 6);
    let edges = Edges::numbered(number)
        .ok_or_else(|| format!("{number} is not the number of an `Edges`"))?;
    let reach = Reach { radius: args.scalar(index + 5), edges };
    let most = axes.map(|has_pass| if has_pass { RADIUS_MAX } else { 0 });
    if reach.radius.iter().zip(most).any(|(&r, most)| r > most) {
        return Err(format!("the radius is {:?}, and {most:?} is the largest", reach.radius));
    }
    Place::from_words(args.scalar(index)).check(args, bytes, reach)
}

fn check_plane<T: Element>(args: &ArgBlock) -> std::result::Result<(), String> {
    check(args, 0, T::BYTES as u64, [false, true, true])
}

/// The type of the elements of a pass along the images.
fn real_of(args: &ArgBlock) -> std::result::Result<RealType, String> {
    let number = args.scalar::<u32>(0);
    RealType::numbered(number).ok_or_else(|| format!("{number} is not the number of a type"))
}

fn check_stack(args: &ArgBlock) -> std::result::Result<(), String> {
    check(args, 1, real_of(args)?.bytes(), [true, false, false])
}

fn stack_bytes(args: &ArgBlock) -> u64 {
    real_of(args).map_or(1, RealType::bytes)
}

fn shape(args: &ArgBlock, index: usize, bytes: u64, columns: u64, tile_rows: u64) -> LaunchConfig {
    let place = Place::from_words(args.scalar(index));
    place.config(place.rows(args.spans()[1].bytes(), bytes), columns, tile_rows)
}

fn tile_elements(args: &ArgBlock, index: usize, bytes: u64) -> u64 {
    let width = Place::from_words(args.scalar(index)).volumes.width;
    width.saturating_mul(bytes * TWIN_ROWS)
}

/// The place of a tile of a launch.
fn place_of_tile(place: [u64; 5], first: u64, bytes: u64) -> Place {
    let mut place = Place::from_words(place);
    place.first_out += place.rows(first, bytes);
    place
}

fn run_plane<T: Element>(tile: &mut Tile<'_>) {
    let first = tile.first as u64;
    let (place, x, y, radius, edges, y_weights, x_weights) = tile.args::<PlaneParams>();
    let edges = Edges::numbered(edges).expect("the check refuses an unknown number");
    let place = place_of_tile(place, first, T::BYTES as u64);
    twin::plane::<T>(&place, Reach { radius, edges }, &y_weights, &x_weights, x, y);
}

fn run_stack(tile: &mut Tile<'_>) {
    let first = tile.first as u64;
    let (number, place, x, y, radius, edges, weights) = tile.args::<StackParams>();
    let edges = Edges::numbered(edges).expect("the check refuses an unknown number");
    let real = RealType::numbered(number).expect("the check refuses an unknown number");
    let place = place_of_tile(place, first, real.bytes());
    twin::stack(real, &place, Reach { radius, edges }, &weights, x, y);
}

/// An upper bound of the cost of a launch: a load, a conversion and four operations for each
/// element of a window. `gaussian.cu` estimates how many of them serve several windows.
fn cost(args: &ArgBlock, index: usize, bytes_of_element: u64) -> Cost {
    let bytes = args.spans().iter().map(|arg| arg.bytes()).sum();
    let sides = args.scalar::<[u32; 3]>(index + 5).map(|r| u64::from(2 * r + 1));
    let elements = args.spans()[1].bytes() / bytes_of_element;
    Cost { bytes, ops: elements * 6 * sides.iter().sum::<u64>() }
}

macro_rules! planes {
    ($($real:ident $type:ty, $name:literal;)*) => {
        static PLANES: [(RealType, Kernel<PlaneParams>); 12] = [$((
            RealType::$real,
            // SAFETY: each `gaussian_plane_<type>` takes (Place, const u8*, u64, u8*, u64, Radius,
            // u32, Weights, Weights), with the sizes of the arrays of the declaration. The entry
            // reads only `x[..x_len]`, holds its indices to the rows of x, and writes only
            // `y[..y_len]`. Its shared memory has room for the largest radius that the check
            // accepts. False if `RADIUS_MAX` grows here alone.
            unsafe {
                const BYTES: u64 = <$type as Element>::BYTES as u64;
                let spec = KernelSpec::new(
                    $name,
                    Code::ptx(PTX),
                    Shape::Computed(|args| Ok(shape(args, 0, BYTES, 64, TILE_ROWS))),
                );
                Kernel::declare(spec.check(check_plane::<$type>).twin(Twin {
                    tile_elements: |args| tile_elements(args, 0, BYTES),
                    run: run_plane::<$type>,
                    cost: |args| cost(args, 0, BYTES),
                }))
            },
        )),*];
    };
}
planes! {
    U8 u8, "gaussian_plane_u8";
    I8 i8, "gaussian_plane_i8";
    U16 u16, "gaussian_plane_u16";
    I16 i16, "gaussian_plane_i16";
    U32 u32, "gaussian_plane_u32";
    I32 i32, "gaussian_plane_i32";
    U64 u64, "gaussian_plane_u64";
    I64 i64, "gaussian_plane_i64";
    F16 F16, "gaussian_plane_f16";
    BF16 BF16, "gaussian_plane_bf16";
    F32 f32, "gaussian_plane_f32";
    F64 f64, "gaussian_plane_f64";
}

/// The kernel of the pass along the images.
pub(super) static STACK: Kernel<StackParams> = {
    let shape = Shape::Computed(|args| Ok(shape(args, 1, stack_bytes(args), 256, STACK_ROWS)));
    let spec = KernelSpec::new("gaussian_stack", Code::ptx(PTX), shape).check(check_stack);
    let spec = spec.twin(Twin {
        tile_elements: |args| tile_elements(args, 1, stack_bytes(args)),
        run: run_stack,
        cost: |args| cost(args, 1, stack_bytes(args)),
    });
    // SAFETY: `gaussian_stack` takes (u32, Place, const u8*, u64, u8*, u64, Radius, u32, Weights),
    // with the sizes of the arrays of the declaration. The entry reads and writes whole elements of
    // the type, x within its rows and y within its length. Its shared memory has room for the
    // largest radius that the check accepts. False if `RADIUS_MAX` grows here alone.
    unsafe { Kernel::declare(spec) }
};

#[cfg(test)]
mod tests {
    use super::{PTX, RealType, STACK, plane};

    #[test]
    fn every_type_has_its_entry_in_the_ptx() {
        for real in RealType::ALL {
            let name = plane(real).unwrap().name();
            assert_eq!(name, format!("gaussian_plane_{real:?}").to_lowercase());
            assert!(PTX.contains(&format!(".entry {name}(")), "{name}");
        }
        assert!(PTX.contains(&format!(".entry {}(", STACK.name())));
    }
}
