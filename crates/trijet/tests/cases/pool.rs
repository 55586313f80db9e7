//! Stream-ordered memory (laws M-C1, M-C2, M-C4), and launches that are refused.

use super::{download, upload, words};
use trijet::kernels::FILL_U32;
use trijet::testing::MIX;
use trijet::{Bytes, Device, ErrorKind, Result};

const MEBIBYTE: usize = 1 << 20;

/// Law M-C2.
pub(crate) fn used_memory_follows_alloc_and_free(device: &Device) -> Result<()> {
    let stream = device.stream()?;
    assert_eq!(device.memory_stats()?.used.0, 0);
    device.reset_memory_high()?;
    let x = stream.alloc::<u8>(3 * MEBIBYTE)?;
    let y = stream.alloc::<u8>(MEBIBYTE)?;
    let full = device.memory_stats()?;
    assert!(full.used.0 >= 4 << 20, "{full:?}");
    assert!(full.reserved >= full.used, "{full:?}");
    drop(x);
    stream.synchronize()?;
    let half = device.memory_stats()?;
    assert!((1 << 20..3 << 20).contains(&half.used.0), "{half:?}");
    assert_eq!(half.used_high, full.used);
    device.reset_memory_high()?;
    assert_eq!(device.memory_stats()?.used_high, half.used);
    drop(y);
    stream.synchronize()?;
    let empty = device.memory_stats()?;
    assert_eq!(empty.used.0, 0);
    assert_eq!(empty.reserved, full.reserved, "by default a synchronisation returns nothing");
    Ok(())
}

/// Law M-C1: a free returns nothing, and a synchronisation returns what exceeds the threshold.
pub(crate) fn memory_above_the_threshold_is_returned_at_a_synchronisation(
    device: &Device,
) -> Result<()> {
    let stream = device.stream()?;
    let fill = || -> Result<()> {
        let mut x = stream.alloc::<u8>(64 * MEBIBYTE)?;
        stream.fill_bytes(&mut x.slice_mut(..8), 1)
    };
    fill()?;
    stream.synchronize()?;
    let kept = device.memory_stats()?.reserved;
    assert!(kept.0 >= 64 << 20, "{kept} kept");
    device.keep_memory(Bytes(0))?;
    fill()?;
    stream.synchronize()?;
    let returned = device.memory_stats()?;
    assert!(returned.reserved < kept, "{returned:?} after {kept}");
    Ok(())
}

/// Law M-C4.
pub(crate) fn trimming_keeps_what_is_in_use(device: &Device) -> Result<()> {
    let stream = device.stream()?;
    let mut x = upload(device, &stream, &words(1, MEBIBYTE / 8))?;
    drop(stream.alloc::<u8>(64 * MEBIBYTE)?);
    stream.synchronize()?;
    let full = device.memory_stats()?.reserved;
    device.trim_memory(Bytes(u64::MAX))?;
    assert_eq!(device.memory_stats()?.reserved, full, "the pool holds less than it may keep");
    device.trim_memory(Bytes(0))?;
    let trimmed = device.memory_stats()?;
    assert!(trimmed.reserved < full, "{trimmed:?} after {full}");
    assert!(trimmed.reserved >= trimmed.used, "{trimmed:?}");
    assert_eq!(download(device, &stream, &x)?, words(1, MEBIBYTE / 8));
    stream.fill_bytes(&mut x, 0)
}

pub(crate) fn allocations_of_zero_bytes_succeed_and_can_be_freed(device: &Device) -> Result<()> {
    let stream = device.stream()?;
    let (x, mut y) = (stream.alloc::<u64>(0)?, stream.alloc::<u64>(0)?);
    assert!(x.is_empty());
    stream.copy(&x, &mut y)?;
    assert!(download(device, &stream, &y)?.is_empty());
    drop(x);
    stream.launch(&FILL_U32, (7, &mut stream.alloc::<u32>(0)?))?;
    stream.synchronize()
}

pub(crate) fn a_kernel_refuses_unequal_lengths(device: &Device) -> Result<()> {
    let (stream, other) = (device.stream()?, device.stream()?);
    let x = upload(device, &other, &words(2, 9))?;
    let mut y = upload(device, &stream, &words(3, 8))?;
    let before = device.ordering();
    let refused = stream.launch(&MIX, (1, &x, &mut y)).expect_err("9 elements beside 8");
    assert_eq!(refused.kind(), ErrorKind::InvalidValue);
    assert!(refused.to_string().contains("mix_u64"), "{refused}");
    assert_eq!(refused.code(), None, "the driver was not asked");
    assert_eq!(device.ordering(), before, "no wait was enqueued");
    stream.launch(&MIX, (1, x.slice(1..), &mut y))?;
    device.synchronize()
}

pub(crate) fn a_launch_over_nothing_does_nothing(device: &Device) -> Result<()> {
    let (stream, other) = (device.stream()?, device.stream()?);
    let x = upload(device, &other, &words(4, 8))?;
    let mut y = upload(device, &stream, &words(5, 8))?;
    let before = device.ordering();
    stream.launch(&MIX, (1, x.slice(2..2), y.slice_mut(8..)))?;
    assert_eq!(device.ordering(), before);
    assert_eq!(download(device, &stream, &y)?, words(5, 8));
    Ok(())
}
