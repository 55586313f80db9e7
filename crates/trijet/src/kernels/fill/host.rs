//! The twin of `fill`: the same computation on the host, over slices.
#![forbid(unsafe_code)]

/// `y[i] = value`.
pub(crate) fn fill<T: Copy>(value: T, y: &mut [T]) {
    y.fill(value);
}

#[cfg(test)]
mod tests {
    use super::fill;

    #[test]
    fn every_element_is_written() {
        let mut bytes = [1_u8; 7];
        fill(9, &mut bytes);
        assert_eq!(bytes, [9; 7]);

        let mut floats = [0.0_f32; 3];
        fill(-0.0, &mut floats);
        assert_eq!(floats.map(f32::to_bits), [(-0.0_f32).to_bits(); 3]);
    }
}
