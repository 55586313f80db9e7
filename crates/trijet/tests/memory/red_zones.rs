//! Writes to undeclared bytes are found. The report names the call that allocated the buffer. The
//! pointers in this test have the role of the pointers in a wrong kernel.

use trijet::check::CheckOptions;
use trijet::memory::{Damage, DamagePlace};
use trijet::sim::{Executor, Fault, FaultKind, HostConfig, Order, Verb};
use trijet::{Bytes, Device, ErrorKind, PoolChoice, Result, Stream};

/// A device with red zones whose heap has this many bytes.
fn zoned(memory: u64) -> Result<Device> {
    let executor = Executor::Virtual(Order::Greedy);
    let config = HostConfig::new().executor(executor).memory(Bytes(memory));
    Device::builder().host(config).check(CheckOptions::default()).red_zones().open()
}

/// Writes `value` to `len` bytes at an address, in a stream, as a kernel with a pointer does.
fn write_at(s: &Stream, device: &Device, address: u64, len: usize, value: u8) -> Result<()> {
    // SAFETY: the callers pass addresses within the memory of the heap, and wait before the next
    // look at them.
    let mut bytes = unsafe { device.buffer_from_raw::<u8>(address, len, ())? };
    s.fill_bytes(&mut bytes, value)?;
    s.synchronize()
}

fn places(found: &[Damage]) -> Vec<(DamagePlace, (i64, i64), u64, u32)> {
    found.iter().map(|one| (one.place, one.bytes, one.size.0, one.site.line())).collect()
}

#[test]
fn writes_behind_and_before_a_buffer_are_found_with_its_call_and_reported_once() -> Result<()> {
    let device = zoned(1 << 20)?;
    let s = device.stream()?;
    let mut x = s.alloc::<f32>(100)?;
    let line = line!() - 1;
    let mut y = s.alloc::<u8>(0)?;
    s.fill_bytes(&mut x, 1)?;
    s.fill_bytes(&mut y, 1)?;
    assert_eq!(device.check_memory()?, []);
    write_at(&s, &device, x.address() + 400, 1, 7)?;
    write_at(&s, &device, x.address() - 8, 3, 7)?;
    write_at(&s, &device, y.address() + 40, 2, 7)?;
    let found = device.check_memory()?;
    let expected = [
        (DamagePlace::Before, (-8, -6), 400, line),
        (DamagePlace::Behind, (400, 400), 400, line),
        (DamagePlace::Behind, (40, 41), 0, line + 2),
    ];
    assert_eq!(places(&found), expected);
    let text = found[1].to_string();
    assert!(
        text.contains("bytes 400 to 400 were written after the end of a buffer of 400 bytes"),
        "{text}"
    );
    assert!(text.contains("red_zones.rs"), "{text}");
    assert_eq!(device.check_memory()?, [], "they were reported");
    Ok(())
}

/// The corrected program writes every byte of the buffers, and no byte outside.
#[test]
fn all_bytes_of_a_buffer_can_be_written() -> Result<()> {
    let device = zoned(16 << 20)?;
    let s = device.stream()?;
    for len in [0, 1, 255, 256, 257, 1000, 5 << 20] {
        let mut x = s.alloc::<u8>(len)?;
        s.fill_bytes(&mut x, 3)?;
        assert_eq!(device.check_memory()?, [], "{len}");
        assert!(s.download(&x)?.iter().all(|byte| *byte == 3), "{len}");
        drop(x);
        assert_eq!(device.check_memory()?, [], "{len}, dropped");
        assert_eq!(device.check_memory()?, [], "{len}, poisoned");
    }
    let verdict = device.verdict().expect("it is checked");
    assert_eq!(verdict.findings, [], "{verdict}");
    let stats = device.memory_stats()?;
    assert_eq!(stats.used, Bytes(0), "the heap has the memory of the dropped buffers again");
    Ok(())
}

#[test]
fn a_write_past_a_buffer_is_found_after_its_drop_too() -> Result<()> {
    let device = zoned(1 << 20)?;
    let s = device.stream()?;
    let x = s.alloc::<u8>(300)?;
    write_at(&s, &device, x.address() + 300, 4, 9)?;
    drop(x);
    let found = device.check_memory()?;
    assert_eq!(places(&found)[0].1, (300, 303));
    assert_eq!(found.len(), 1);
    Ok(())
}

#[test]
fn a_write_after_the_drop_is_found() -> Result<()> {
    let device = zoned(1 << 20)?;
    let s = device.stream()?;
    let x = s.alloc::<u32>(50)?;
    let address = x.address();
    drop(x);
    assert_eq!(device.check_memory()?, []);
    let poison = s.download(&unsafe_view(&device, address, 200)?)?;
    assert!(poison.iter().all(|byte| *byte == 0xdb), "the memory is poisoned");
    write_at(&s, &device, address + 17, 2, 1)?;
    let found = device.check_memory()?;
    assert_eq!(places(&found)[0].0, DamagePlace::AfterDrop);
    assert_eq!(places(&found)[0].1, (17, 18));
    Ok(())
}

fn unsafe_view(device: &Device, address: u64, len: usize) -> Result<trijet::Buffer<u8>> {
    // SAFETY: the memory is mapped, and no work of the device uses it.
    unsafe { device.buffer_from_raw::<u8>(address, len, ()) }
}

/// If an allocation finds no memory, it examines dropped buffers that were not examined yet, and
/// uses their memory. Their findings are kept.
#[test]
fn an_allocation_without_memory_looks_at_dropped_buffers_and_gets_theirs() -> Result<()> {
    let device = zoned(64 << 10)?;
    let s = device.stream()?;
    let mut addresses = Vec::new();
    for turn in 0..5u8 {
        let mut x = s.alloc::<u8>(40 << 10)?;
        s.fill_bytes(&mut x, turn)?;
        if turn == 1 {
            write_at(&s, &device, x.address() + (40 << 10), 1, 0)?;
        }
        addresses.push(x.address());
    }
    addresses.dedup();
    assert_eq!(addresses.len(), 1);
    let found = device.check_memory()?;
    assert_eq!(found.len(), 1, "{found:?}");
    Ok(())
}

/// The owner of a device with red zones needs no further call: its memory returns, and nothing is
/// kept alive. If an allocation fails midway, its zones lack their values. If an examination fails
/// midway, the poison lacks its value. No kernel wrote these bytes.
#[test]
fn a_fill_that_fails_is_no_damage() -> Result<()> {
    for failing in 1..13 {
        let executor = Executor::Virtual(Order::Greedy);
        let fault = Fault { verb: Verb::Fill, nth: failing, kind: FaultKind::Refused };
        let config = HostConfig::new().executor(executor).faults(vec![fault]);
        let device = Device::builder().host(config).red_zones().open()?;
        let s = device.stream()?;
        let mut refused = 0;
        for _ in 0..3 {
            // The memory gets values that neither zones nor poison have.
            let used = s.alloc::<u8>(700).and_then(|mut x| s.fill_bytes(&mut x, 1));
            refused += u32::from(used.is_err());
            match device.check_memory() {
                Ok(found) => assert_eq!(found, [], "fill {failing}"),
                Err(_) => refused += 1,
            }
        }
        assert_eq!(refused, 1, "fill {failing}");
        assert_eq!(device.check_memory()?, [], "fill {failing}");
    }
    Ok(())
}

#[test]
fn a_device_that_ends_gives_up_what_it_watches() -> Result<()> {
    let config =
        HostConfig::new().executor(Executor::Virtual(Order::Greedy)).memory(Bytes(1 << 20));
    let device = Device::builder().host(config).red_zones().open()?;
    let s = device.stream()?;
    let mut x = s.alloc::<u8>(1000)?;
    s.fill_bytes(&mut x, 1)?;
    drop(x);
    let kept = s.alloc::<u8>(1000)?;
    drop((s, kept));
    device.close()
}

#[test]
fn a_device_without_red_zones_says_so_and_pools_have_none() -> Result<()> {
    let device = Device::host(HostConfig::default())?.remove(0);
    let error = device.check_memory().expect_err("it has none");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let builder = Device::builder().host(HostConfig::default()).pool(PoolChoice::Own).red_zones();
    let error = builder.open().expect_err("a pool");
    assert!(error.to_string().contains("red zones need the heap"), "{error}");
    Ok(())
}
