//! Slices to the device and back, and fills by element.

use super::{Gate, words};
use trijet::{Device, Element, Result, Stream};

pub(crate) fn a_slice_may_change_as_soon_as_it_is_uploaded(device: &Device) -> Result<()> {
    let s = device.stream()?;
    // Law A20: an allocation may wait for the device, and so for the gate. The memory of this
    // allocation is kept when it is dropped, so the upload below need not allocate.
    drop(device.pinned::<u64>(5000)?);
    let gate = Gate::on(device, &s)?;
    let mut data = words(1, 5000);
    let x = s.upload(&data)?;
    data.fill(0);
    gate.open();
    assert_eq!(s.download(&x)?, words(1, 5000));
    Ok(())
}

pub(crate) fn a_download_waits_for_the_writers_of_all_streams(device: &Device) -> Result<()> {
    let (a, b) = (device.stream()?, device.stream()?);
    let mut x = a.upload(&words(2, 100))?;
    let gate = Gate::on(device, &a)?;
    a.fill_bytes(&mut x.slice_mut(10..20), 0xff)?;
    gate.open();
    let mut wanted = words(2, 100);
    wanted[10..20].fill(u64::MAX);
    assert_eq!(b.download(&x)?, wanted);
    assert_eq!(b.download(&x.slice(5..15))?, wanted[5..15]);
    assert!(b.download(&x.slice(3..3))?.is_empty());
    Ok(())
}

pub(crate) fn zeroed_memory_is_zero_where_the_memory_was_used_before(
    device: &Device,
) -> Result<()> {
    let s = device.stream()?;
    drop(s.upload(&[u64::MAX; 1000])?);
    assert_eq!(s.download(&s.alloc_zeroed::<u64>(1000)?)?, [0; 1000]);
    assert!(s.alloc_zeroed::<u64>(0)?.is_empty());
    Ok(())
}

fn filled<T: Element + PartialEq + std::fmt::Debug>(s: &Stream, old: T, new: T) -> Result<()> {
    let mut x = s.upload(&[old; 1000])?;
    s.fill(&mut x.slice_mut(3..997), new)?;
    let mut wanted = vec![old; 1000];
    wanted[3..997].fill(new);
    assert_eq!(s.download(&x)?, wanted);
    s.fill(&mut x.slice_mut(5..5), old)
}

pub(crate) fn a_fill_sets_every_element_and_no_other(device: &Device) -> Result<()> {
    let s = device.stream()?;
    filled(&s, 1_u8, 0xa5)?;
    filled(&s, 1_i16, -2)?;
    filled(&s, 1.0_f32, -0.25)?;
    filled(&s, 1_u64, 0x0123_4567_89ab_cdef)?;
    filled(&s, 1.0_f64, f64::MIN_POSITIVE)?;
    filled(&s, [1_u8, 2, 3, 4], [5, 6, 7, 8])?;
    Ok(())
}
