//! Stage 1: thirteen channels of each pixel, plane after plane, each scaled to about -1 to 1.
//!
//! | channel | value |
//! |---|---|
//! | 0 to 2 | R, G, B: the bytes divided by 255 |
//! | 3 to 5 | L* / 100, a* / 128, b* / 128 (CIE Lab): sRGB to linear light to XYZ, white point D65 |
//! | 6, 7 | Sobel x and y of the gray value, divided by the most they can be |
//! | 8 | the length of the two, divided by the most it can be |
//! | 9, 10 | the position of the pixel's centre: 0 at the left and upper edge, 1 at the others |
//! | 11 | eccentricity: the distance from the image's centre, 1 in the corners |
//! | 12 | local contrast: twice the standard deviation of the gray values in a window of 3 x 3 |
//!
//! The gray value of a pixel is `(77 R + 150 G + 29 B) / 65280`, with bytes for R, G and B. Windows
//! are clamped to the image.

use trijet::kernels::{
    ArgBlock, Code, Cost, Exactness, KernelSpec, Read, Shape, Tile, Twin, Write,
};
use trijet::{Error, ErrorKind, Kernel, LaunchConfig, Result};

/// The number of channels of a pixel.
pub(crate) const CHANNELS: usize = 13;

/// `texture(width, height, rgb, out)`.
pub(crate) static TEXTURE: Kernel<(u32, u32, Read<u8>, Write<f32>)> = {
    let code = Code::source(include_str!("texture.cu"));
    let twin = Twin { tile_elements, run, cost };
    let spec = KernelSpec::new("texture", code, Shape::Computed(shape)).check(check).twin(twin);
    // `powf` and `cbrtf` differ between devices. The tolerance is relative to 1.
    let spec = spec.exactness(Exactness::Relative(1e-5));
    // SAFETY: `texture` takes (u32, u32, const u8*, u64, float*, u64). It reads 3 bytes and writes
    // 13 floats for each of width x height pixels; `check` refuses spans of other lengths.
    unsafe { Kernel::declare(spec) }
};

fn check(args: &ArgBlock) -> std::result::Result<(), String> {
    let (width, height) = (args.scalar::<u32>(0), args.scalar::<u32>(1));
    let pixels = u128::from(width) * u128::from(height);
    let [bytes, floats] = [0, 1].map(|span| u128::from(args.spans()[span].elements));
    if pixels > 0 && bytes == 3 * pixels && floats == CHANNELS as u128 * pixels {
        return Ok(());
    }
    Err(format!("{bytes} bytes and {floats} floats for {width} x {height} pixels"))
}

fn pixels(args: &ArgBlock) -> u64 {
    u64::from(args.scalar::<u32>(0)) * u64::from(args.scalar::<u32>(1))
}

fn shape(args: &ArgBlock) -> Result<LaunchConfig> {
    let pixels = usize::try_from(pixels(args))
        .map_err(|error| Error::new(ErrorKind::InvalidValue, "launch", error.to_string()))?;
    LaunchConfig::over(pixels, 256)
}

fn cost(args: &ArgBlock) -> Cost {
    Cost { bytes: 55 * pixels(args), ops: 300 * pixels(args) }
}

/// The number of elements of a tile: a tile is the plane of one channel.
fn tile_elements(args: &ArgBlock) -> u64 {
    pixels(args)
}

fn run(tile: &mut Tile<'_>) {
    let (width, height) = (tile.scalar::<u32>(0) as usize, tile.scalar::<u32>(1) as usize);
    let image = Image { width, height, rgb: tile.read(2) };
    let channel = tile.first / (width * height);
    for (i, out) in tile.write::<f32>(4).iter_mut().enumerate() {
        *out = image.channel(channel, i % width, i / width);
    }
}

/// An image, for the same arithmetic as in `texture.cu`, pixel by pixel.
struct Image<'a> {
    width: usize,
    height: usize,
    rgb: &'a [u8],
}

impl Image<'_> {
    fn channel(&self, channel: usize, x: usize, y: usize) -> f32 {
        let (width, height) = (self.width as f32, self.height as f32);
        let (right, down) = (2.0 * x as f32 + 1.0, 2.0 * y as f32 + 1.0);
        match channel {
            0..=2 => f32::from(self.pixel(x, y)[channel]) / 255.0,
            3..=5 => self.lab(x, y)[channel - 3],
            6 => self.sobel(x, y).0 as f32 / 261_120.0,
            7 => self.sobel(x, y).1 as f32 / 261_120.0,
            8 => {
                let (across, along) = self.sobel(x, y);
                ((across * across + along * along) as f32).sqrt() / 369_279.45
            }
            9 => right / (2.0 * width),
            10 => down / (2.0 * height),
            11 => {
                let (right, down) = ((right - width) / width, (down - height) / height);
                (0.5 * (right * right + down * down)).sqrt()
            }
            _ => {
                let window = self.window(x, y);
                let sum: i64 = window.iter().sum();
                let squares: i64 = window.iter().map(|gray| gray * gray).sum();
                ((9 * squares - sum * sum) as f32).sqrt() / 293_760.0
            }
        }
    }

    fn pixel(&self, x: usize, y: usize) -> [u8; 3] {
        let at = 3 * (y * self.width + x);
        [self.rgb[at], self.rgb[at + 1], self.rgb[at + 2]]
    }

    /// The gray values of the window around a pixel, row by row, each times 65280.
    fn window(&self, x: usize, y: usize) -> [i64; 9] {
        let inside =
            |at: usize, by: usize, count: usize| (at + by).saturating_sub(1).min(count - 1);
        std::array::from_fn(|i| {
            let (x, y) = (inside(x, i % 3, self.width), inside(y, i / 3, self.height));
            let [r, g, b] = self.pixel(x, y).map(i64::from);
            77 * r + 150 * g + 29 * b
        })
    }

    fn sobel(&self, x: usize, y: usize) -> (i64, i64) {
        let w = self.window(x, y);
        let across = w[2] + 2 * w[5] + w[8] - w[0] - 2 * w[3] - w[6];
        let along = w[6] + 2 * w[7] + w[8] - w[0] - 2 * w[1] - w[2];
        (across, along)
    }

    fn lab(&self, x: usize, y: usize) -> [f32; 3] {
        let [r, g, b] = self.pixel(x, y).map(linear);
        let fx = lab((0.412_456_4 * r + 0.357_576_1 * g + 0.180_437_5 * b) / 0.950_47);
        let fy = lab(0.212_672_9 * r + 0.715_152_2 * g + 0.072_175 * b);
        let fz = lab((0.019_333_9 * r + 0.119_192 * g + 0.950_304_1 * b) / 1.088_83);
        [(116.0 * fy - 16.0) / 100.0, 500.0 * (fx - fy) / 128.0, 200.0 * (fy - fz) / 128.0]
    }
}

fn linear(byte: u8) -> f32 {
    let c = f32::from(byte) / 255.0;
    if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
}

fn lab(t: f32) -> f32 {
    if t > 216.0 / 24_389.0 { t.cbrt() } else { (24_389.0 / 27.0 * t + 16.0) / 116.0 }
}
