//! References for the operations, computed in another way than the library computes them.

/// The pixel of a line that stands at `place`, by the words of `scipy.ndimage`; `None` for a zero.
/// It walks from the line to the place, and turns where the mode demands it.
fn walked(edges: &str, place: isize, length: usize) -> Option<usize> {
    let length = length.cast_signed();
    let within = |at: isize| (0..length).contains(&at);
    let (mut at, mut step) = if place < 0 { (0, -1) } else { (place.min(length - 1), 1) };
    for _ in 0..(place - at).abs() {
        match (edges, within(at + step)) {
            ("constant", _) => return None,
            ("nearest", _) => {}
            ("wrap", _) => at = (at + step).rem_euclid(length),
            ("reflect", false) => step = -step,
            ("mirror", false) => {
                step = -step;
                at = (at + step).clamp(0, length - 1);
            }
            (_, true) => at += step,
            (other, _) => panic!("{other} is no mode"),
        }
    }
    Some(at.cast_unsigned())
}

/// The median filter with the default edges.
pub(crate) fn median<T: Copy + Ord + Default>(
    stack: &[T],
    shape: [usize; 3],
    radius: usize,
) -> Vec<T> {
    median_with(stack, shape, radius, "nearest")
}

/// The median filter, by sorting the window of every pixel.
pub(crate) fn median_with<T: Copy + Ord + Default>(
    stack: &[T],
    [count, height, width]: [usize; 3],
    radius: usize,
    edges: &str,
) -> Vec<T> {
    assert_eq!(stack.len(), count * height * width);
    let side = 2 * radius + 1;
    let mut result = Vec::with_capacity(stack.len());
    for image in stack.chunks(height * width) {
        for row in 0..height {
            for column in 0..width {
                let mut window: Vec<T> = (0..side * side)
                    .map(|n| {
                        let place = |at: usize| at.cast_signed() - radius.cast_signed();
                        let row = walked(edges, place(row + n / side), height);
                        let column = walked(edges, place(column + n % side), width);
                        row.zip(column).map_or(T::default(), |(r, c)| image[r * width + c])
                    })
                    .collect();
                window.sort_unstable();
                result.push(window[side * side / 2]);
            }
        }
    }
    result
}

/// scale * x + offset in single precision, to the nearest number from 0 to `most`, ties to even.
pub(crate) fn affine(numbers: &[u16], scale: f32, offset: f32, most: u16) -> Vec<u16> {
    let nearest = |number: f32| {
        // A binary search for the two neighbours; in a tie, the even one is nearest.
        let distance = |to: u16| (f64::from(number) - f64::from(to)).abs();
        let (mut low, mut high) = (0, most);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if f64::from(middle) <= f64::from(number) { low = middle } else { high = middle }
        }
        match distance(low).total_cmp(&distance(high)) {
            std::cmp::Ordering::Less => low,
            std::cmp::Ordering::Greater => high,
            std::cmp::Ordering::Equal => low + low % 2,
        }
    };
    numbers.iter().map(|&x| nearest(scale * f32::from(x) + offset)).collect()
}
