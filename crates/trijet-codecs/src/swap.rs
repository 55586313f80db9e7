//! The other byte order.

use crate::error::Cause;

/// Writes the elements of `input` with their bytes backwards.
pub(crate) fn swap(element: usize, input: &[u8], output: &mut [u8]) -> Result<usize, Cause> {
    if element == 0 || !input.len().is_multiple_of(element) {
        let cause = format!("{} bytes are not whole elements of {element} bytes", input.len());
        return Err(cause.into());
    }
    match element {
        1 => output.copy_from_slice(input),
        2 => swap_chunks::<2>(input, output),
        4 => swap_chunks::<4>(input, output),
        8 => swap_chunks::<8>(input, output),
        _ => {
            for (from, to) in input.chunks_exact(element).zip(output.chunks_exact_mut(element)) {
                to.iter_mut().zip(from.iter().rev()).for_each(|(to, from)| *to = *from);
            }
        }
    }
    Ok(input.len())
}

fn swap_chunks<const N: usize>(input: &[u8], output: &mut [u8]) {
    let (from, _) = input.as_chunks::<N>();
    let (to, _) = output.as_chunks_mut::<N>();
    for (from, to) in from.iter().zip(to) {
        *to = *from;
        to.reverse();
    }
}
