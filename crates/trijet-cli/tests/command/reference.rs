//! References for the operations, computed in another way than the library computes them.

/// The median filter, by sorting the window of every pixel. Pixels outside of the image have the
/// value of the nearest pixel inside.
pub(crate) fn median<T: Copy + Ord>(
    stack: &[T],
    [count, height, width]: [usize; 3],
    radius: usize,
) -> Vec<T> {
    assert_eq!(stack.len(), count * height * width);
    let side = 2 * radius + 1;
    let mut result = Vec::with_capacity(stack.len());
    for image in stack.chunks(height * width) {
        for row in 0..height {
            for column in 0..width {
                let mut window: Vec<T> = (0..side * side)
                    .map(|n| {
                        let r = (row + n / side).saturating_sub(radius).min(height - 1);
                        let c = (column + n % side).saturating_sub(radius).min(width - 1);
                        image[r * width + c]
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
