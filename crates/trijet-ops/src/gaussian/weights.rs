//! The weights of a Gaussian, as `scipy.ndimage.gaussian_filter1d` computes them.
#![forbid(unsafe_code)]

/// The largest radius of a pass, `RADIUS_MAX` in `gaussian.cu`.
pub(super) const RADIUS_MAX: u32 = 31;

/// The weights of one axis, from the middle outwards. The weights beyond the radius are 0.
pub(super) type Weights = [f64; RADIUS_MAX as usize + 1];

/// A pass along one axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pass {
    pub(super) radius: u32,
    pub(super) weights: Weights,
}

impl Pass {
    /// A pass that changes nothing.
    pub(super) const NONE: Self = {
        let mut weights = [0.0; RADIUS_MAX as usize + 1];
        weights[0] = 1.0;
        Self { radius: 0, weights }
    };

    /// The pass for a standard deviation in elements; `None` if its radius is above 31.
    pub(super) fn new(sigma: f64) -> Option<Self> {
        let reach = 4.0 * sigma + 0.5;
        let radius = (0..=RADIUS_MAX + 1).take_while(|&r| f64::from(r) <= reach).last()?;
        if radius > RADIUS_MAX {
            return None;
        }
        let factor = -0.5 / (sigma * sigma);
        let middle = i32::try_from(radius).ok()?;
        let heights: Vec<f64> =
            (-middle..=middle).map(|x| (factor * f64::from(x * x)).exp()).collect();
        let sum = pairwise_sum(&heights);
        let mut weights = [0.0; RADIUS_MAX as usize + 1];
        let outwards = &heights[radius as usize..];
        weights.iter_mut().zip(outwards).for_each(|(weight, height)| *weight = height / sum);
        Some(Self { radius, weights })
    }
}

/// The sum in the order of `numpy.sum`, for at most 128 numbers.
fn pairwise_sum(numbers: &[f64]) -> f64 {
    let Some((first, rest)) = numbers.split_first_chunk::<8>() else {
        return numbers.iter().fold(0.0, |sum, number| sum + number);
    };
    let mut sums = *first;
    let (chunks, last) = rest.as_chunks::<8>();
    for chunk in chunks {
        sums.iter_mut().zip(chunk).for_each(|(sum, number)| *sum += number);
    }
    let [a, b, c, d, e, f, g, h] = sums;
    let whole = ((a + b) + (c + d)) + ((e + f) + (g + h));
    last.iter().fold(whole, |sum, number| sum + number)
}

#[cfg(test)]
mod tests {
    use super::Pass;

    #[test]
    fn the_radius_is_four_standard_deviations_to_the_nearest_integer() {
        let radius = |sigma| Pass::new(sigma).map(|pass| pass.radius);
        assert_eq!(radius(0.1), Some(0));
        assert_eq!(radius(0.125), Some(1));
        assert_eq!(radius(1.0), Some(4));
        assert_eq!(radius(7.87), Some(31));
        assert_eq!(radius(7.875), None);
        assert_eq!(radius(f64::INFINITY), None);
        assert_eq!(radius(f64::NAN), None);
    }

    #[test]
    fn the_weights_have_the_sum_one_and_fall() {
        for sigma in [0.1, 0.5, 1.0, 3.0, 7.87] {
            let Pass { radius, weights } = Pass::new(sigma).unwrap();
            let sum = weights[0] + 2.0 * weights[1..].iter().sum::<f64>();
            assert!((sum - 1.0).abs() < 1e-15, "{sigma}: {sum}");
            assert!(weights[..=radius as usize].is_sorted_by(|a, b| a > b), "{sigma}");
            assert!(weights[radius as usize + 1..].iter().all(|&weight| weight == 0.0), "{sigma}");
        }
    }
}
