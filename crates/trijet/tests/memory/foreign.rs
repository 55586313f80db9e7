//! Memory, streams and events of other libraries. The library orders them like its own, and returns
//! them to their owners when no operation uses them.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use trijet::memory::dlpack::DlManagedTensor;
use trijet::sim::{Executor, Fault, FaultKind, HostConfig, Order, Verb};
use trijet::testing::{Capture, CaptureMode};
use trijet::{Device, ErrorKind, Readiness, Result, Uses};

fn devices(order: Order, faults: Vec<Fault>) -> Vec<Device> {
    let config = HostConfig::new().executor(Executor::Virtual(order)).devices(2).faults(faults);
    Device::host(config).expect("a simulation needs no threads")
}

fn device() -> Device {
    devices(Order::Greedy, vec![]).remove(0)
}

/// An owner of 64 elements that counts its drops.
struct Owner {
    elements: Box<[u32]>,
    drops: Arc<AtomicU32>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Ordering::Relaxed);
    }
}

impl Owner {
    fn new(value: u32) -> (Self, Arc<AtomicU32>) {
        let drops = Arc::<AtomicU32>::default();
        (Self { elements: vec![value; 64].into(), drops: Arc::clone(&drops) }, drops)
    }

    fn address(&self) -> u64 {
        self.elements.as_ptr().expose_provenance() as u64
    }
}

/// A buffer over the elements of an owner.
fn import(device: &Device, owner: Owner) -> Result<trijet::Buffer<u32>> {
    let (address, len) = (owner.address(), 64);
    // SAFETY: the elements move with their owner, and no other code reaches them.
    unsafe { device.buffer_from_raw::<u32>(address, len, owner) }
}

/// In every order of the device, a stream reads the values that another stream wrote before.
#[test]
fn foreign_memory_is_ordered_like_our_own() -> Result<()> {
    for seed in 0..200 {
        let device = devices(Order::Seeded(seed), vec![]).remove(0);
        let (a, b) = (device.stream()?, device.stream()?);
        let (owner, _) = Owner::new(1);
        let mut x = import(&device, owner)?;
        let mut h = device.pinned::<u32>(64)?;
        h.write()?.fill(5);
        a.copy(&h, &mut x)?;
        let mut back = device.pinned::<u32>(64)?;
        b.copy(&x, &mut back)?;
        a.fill_bytes(&mut x, 0)?;
        assert_eq!(&*back.read()?, &[5; 64], "seed {seed}");
    }
    Ok(())
}

#[test]
fn an_owner_is_dropped_when_the_last_operation_is_complete_and_not_before() -> Result<()> {
    for seed in 0..100 {
        let device = devices(Order::Seeded(seed), vec![]).remove(0);
        let stream = device.stream()?;
        let (owner, drops) = Owner::new(1);
        let mut x = import(&device, owner)?;
        stream.fill_bytes(&mut x, 7)?;
        drop(x);
        let complete = stream.query()? == trijet::Readiness::Ready;
        let dropped = drops.load(Ordering::Relaxed) == 1;
        assert!(complete || !dropped, "seed {seed}: dropped while the fill is pending");
        stream.synchronize()?;
        // The next call that waits finds the operations complete.
        stream.synchronize()?;
        assert_eq!(drops.load(Ordering::Relaxed), 1, "seed {seed}");
        device.close()?;
        assert_eq!(drops.load(Ordering::Relaxed), 1, "seed {seed}");
    }
    Ok(())
}

#[test]
fn an_owner_of_unused_memory_is_dropped_with_its_buffer() -> Result<()> {
    let (owner, drops) = Owner::new(1);
    drop(import(&device(), owner)?);
    assert_eq!(drops.load(Ordering::Relaxed), 1);
    Ok(())
}

/// A lost device may still access the bytes.
#[test]
fn an_owner_leaks_when_its_device_is_lost() -> Result<()> {
    let fault = Fault { verb: Verb::Fill, nth: 1, kind: FaultKind::Faults };
    let device = devices(Order::Greedy, vec![fault]).remove(0);
    let stream = device.stream()?;
    let (owner, drops) = Owner::new(1);
    let mut x = import(&device, owner)?;
    stream.fill_bytes(&mut x, 7)?;
    stream.synchronize().expect_err("the fill faulted");
    drop(x);
    assert_eq!(device.close().map_err(|error| error.kind()), Err(ErrorKind::Launch));
    assert_eq!(drops.load(Ordering::Relaxed), 0);
    Ok(())
}

#[test]
fn page_locked_memory_of_others_is_read_and_written_by_the_host() -> Result<()> {
    let device = device();
    let stream = device.stream()?;
    let (owner, drops) = Owner::new(4);
    let address = owner.address();
    // SAFETY: the elements move with their owner, and no other code reaches them.
    let mut h = unsafe { device.pinned_from_raw::<u32>(address, 64, owner)? };
    let mut x = stream.alloc::<u32>(64)?;
    stream.copy(&h, &mut x)?;
    h.write()?.fill(0);
    stream.copy(&x, &mut h)?;
    assert_eq!(&*h.read()?, &[4; 64]);
    drop(h);
    stream.synchronize()?;
    assert_eq!(drops.load(Ordering::Relaxed), 1);
    Ok(())
}

#[test]
fn an_address_that_cannot_hold_the_elements_is_refused() {
    let device = device();
    let import = |address, len| {
        // SAFETY: the call is refused.
        let refused = unsafe { device.buffer_from_raw::<u32>(address, len, ()) };
        refused.map(|_| ()).expect_err("refused").kind()
    };
    assert_eq!(import(0, 4), ErrorKind::InvalidValue, "null");
    assert_eq!(import(6, 4), ErrorKind::InvalidValue, "not a multiple of 4");
    assert_eq!(import(64, usize::MAX), ErrorKind::InvalidValue, "too long");
}

/// The imported handle means the same queue as the exported stream.
#[test]
fn a_foreign_stream_keeps_the_order_of_its_other_users() -> Result<()> {
    for seed in 0..100 {
        let device = devices(Order::Seeded(seed), vec![]).remove(0);
        let theirs = device.stream()?;
        // SAFETY: the stream outlives the other handle, which is dropped first.
        let ours = unsafe { device.stream_from_raw(theirs.as_raw(), ())? };
        let (mut x, mut h) = (theirs.alloc::<u8>(64)?, device.pinned::<u8>(64)?);
        theirs.fill_bytes(&mut x, 1)?;
        ours.copy(&x, &mut h)?;
        ours.fill_bytes(&mut x, 2)?;
        assert_eq!(&*h.read()?, &[1; 64], "seed {seed}");
        drop(ours);
        theirs.fill_bytes(&mut x, 3)?;
        theirs.synchronize()?;
    }
    Ok(())
}

/// A ticket also covers work that other code enqueued in the stream, although the lane has no
/// number for this work.
#[test]
fn a_ticket_of_a_foreign_stream_stands_for_the_work_of_others() -> Result<()> {
    let device = device();
    let theirs = device.stream()?;
    // SAFETY: the stream outlives the other handle, which is dropped first.
    let ours = unsafe { device.stream_from_raw(theirs.as_raw(), ())? };
    let before = ours.ticket()?;
    let mut x = theirs.alloc::<u8>(1 << 20)?;
    theirs.fill_bytes(&mut x, 1)?;
    let after = ours.ticket()?;
    assert_eq!(before.query()?, trijet::Readiness::Ready);
    assert_eq!(after.query()?, trijet::Readiness::NotReady);
    after.wait()?;
    assert_eq!(theirs.query()?, trijet::Readiness::Ready);
    Ok(())
}

#[test]
fn the_owner_of_a_stream_is_dropped_after_the_last_buffer_of_the_stream() -> Result<()> {
    let config = HostConfig::new().without_ranges();
    let device = Device::host(config)?.remove(0);
    let theirs = device.stream()?;
    let (owner, drops) = Owner::new(0);
    // SAFETY: `theirs` outlives everything here.
    let ours = unsafe { device.stream_from_raw(theirs.as_raw(), owner)? };
    let x = ours.alloc::<u8>(64)?;
    drop(ours);
    assert_eq!(drops.load(Ordering::Relaxed), 0, "the buffer is freed in the stream");
    drop(x);
    assert_eq!(drops.load(Ordering::Relaxed), 1);
    theirs.synchronize()
}

#[test]
fn a_stream_of_another_device_or_of_none_is_refused() -> Result<()> {
    let devices = devices(Order::Greedy, vec![]);
    let theirs = devices[1].stream()?;
    let legacy = devices[0].legacy_stream()?;
    for raw in [theirs.as_raw(), legacy.as_raw(), std::ptr::without_provenance_mut(0x7777)] {
        // SAFETY: the call is refused.
        let refused = unsafe { devices[0].stream_from_raw(raw, ()) };
        assert_eq!(refused.expect_err("refused").kind(), ErrorKind::InvalidValue, "{raw:?}");
    }
    Ok(())
}

#[test]
fn a_stream_waits_for_an_event_of_others() -> Result<()> {
    for seed in 0..100 {
        let device = devices(Order::Seeded(seed), vec![]).remove(0);
        let (theirs, ours) = (device.stream()?, device.stream()?);
        let (mut x, mut h) = (theirs.alloc::<u8>(64)?, device.pinned::<u8>(64)?);
        // SAFETY: the event below orders the two streams.
        unsafe { x.order_manually() };
        ours.wait(&{
            let allocated = device.event()?;
            allocated.record(&theirs)?;
            allocated
        })?;
        theirs.fill_bytes(&mut x, 9)?;
        let event = device.event()?;
        event.record(&theirs)?;
        // SAFETY: the event is alive.
        unsafe { ours.wait_raw(event.as_raw())? };
        ours.copy(&x, &mut h)?;
        assert_eq!(&*h.read()?, &[9; 64], "seed {seed}");
    }
    Ok(())
}

#[test]
fn a_stream_of_another_library_tells_whether_it_is_captured() -> Result<()> {
    let device = device();
    let theirs = device.stream()?;
    // SAFETY: the stream outlives both.
    let ours = unsafe { device.stream_from_raw(theirs.as_raw(), ())? };
    // SAFETY: the stream is alive.
    let is_captured = || unsafe { device.is_captured_raw(theirs.as_raw()) };
    assert!(!is_captured()?);
    let capture = Capture::begin(&ours, CaptureMode::ThreadLocal)?;
    assert!(is_captured()?);
    capture.end()?;
    assert!(!is_captured()?);
    Ok(())
}

/// The host device cannot run foreign work. The stream can still be used.
#[test]
fn foreign_work_is_refused_by_the_host_device() -> Result<()> {
    let device = device();
    let stream = device.stream()?;
    let (mut x, y) = (stream.alloc::<u8>(64)?, stream.alloc::<u8>(64)?);
    let uses = Uses::new().read(&y).write(&mut x);
    // SAFETY: nothing is enqueued.
    let refused = unsafe { stream.foreign("gemm", uses, |_| Ok(())) };
    assert_eq!(refused.expect_err("no GPU").kind(), ErrorKind::NoTwin);
    let refused = stream.follow_device(Uses::new().update(&mut x));
    assert_eq!(refused.expect_err("no other library").kind(), ErrorKind::NoTwin);
    stream.fill_bytes(&mut x, 3)?;
    let mut h = device.pinned::<u8>(64)?;
    stream.copy(&x, &mut h)?;
    assert_eq!(&*h.read()?, &[3; 64]);
    device.close()
}

#[test]
fn a_tensor_goes_out_and_comes_in_without_a_copy() -> Result<()> {
    let device = device();
    let stream = device.stream()?;
    let mut x = stream.alloc::<f32>(64)?;
    stream.fill_bytes(&mut x, 0)?;
    let address = x.address();
    let tensor = x.into_dlpack()?;
    // SAFETY: a live tensor, which is handed over.
    let back = unsafe { device.from_dlpack::<f32>(tensor)? };
    assert_eq!((back.address(), back.len()), (address, 64));
    let mut h = device.pinned::<f32>(64)?;
    h.write()?.fill(1.0);
    stream.copy(&back, &mut h)?;
    assert_eq!(&*h.read()?, &[0.0; 64]);
    Ok(())
}

/// The consumer may write an exported tensor at once, so the export also waits for operations that
/// read the memory.
#[test]
fn an_export_waits_for_the_readers_of_the_memory() -> Result<()> {
    for seed in 0..20 {
        let device = devices(Order::Seeded(seed), vec![]).remove(0);
        let (writes, reads) = (device.stream()?, device.stream()?);
        let mut x = writes.alloc::<u32>(64)?;
        writes.fill(&mut x, 1)?;
        let mut copied = device.pinned::<u32>(64)?;
        reads.copy(&x, &mut copied)?;
        let tensor = x.into_dlpack()?;
        // SAFETY: a live tensor of this process, whose memory its consumer may write.
        let data = unsafe { tensor.as_ref() }.tensor.data.cast::<u32>();
        for at in 0..64 {
            // SAFETY: it has 64 elements.
            let element = unsafe { data.add(at) };
            // SAFETY: its consumer may write, and the library has no pending operation that uses
            // it.
            unsafe { element.write(2) };
        }
        assert_eq!(&*copied.read()?, &[1; 64], "seed {seed}");
        // SAFETY: it is handed over.
        drop(unsafe { device.from_dlpack::<u32>(tensor)? });
    }
    Ok(())
}

/// S9, S10: memory whose address was given to other code is initialised. Later the library does not
/// change it.
#[test]
fn memory_that_is_used_by_its_address_is_never_zeroed_again() -> Result<()> {
    let device = device();
    let stream = device.stream()?;
    let never_written = stream.alloc::<u8>(4096)?;
    let address = never_written.address();
    let tensor = never_written.into_dlpack()?;
    // SAFETY: a live tensor.
    let data = unsafe { tensor.as_ref() }.tensor.data.cast::<u8>();
    // SAFETY: 4096 bytes of this process, which the consumer of the tensor owns now.
    let data = unsafe { std::slice::from_raw_parts_mut(data, 4096) };
    assert_eq!(data, [0; 4096], "they are initialised");
    data.fill(7);
    // The memory of `large` comes after the tensor, and was not used so far.
    let mut large = stream.alloc::<u8>(1 << 20)?;
    assert!(large.address() > address);
    stream.fill_bytes(&mut large, 1)?;
    // SAFETY: the tensor of the export above, which its consumer has written and gives back once.
    let back = unsafe { device.from_dlpack::<u8>(tensor)? };
    assert_eq!(stream.download(&back)?, [7; 4096]);
    Ok(())
}

/// The same rule, for elements that a growing buffer gets after its address was taken.
#[test]
fn elements_that_a_growing_buffer_gets_are_initialised_for_users_of_its_address() -> Result<()> {
    const PAGE: usize = 4096;
    let device = device();
    let stream = device.stream()?;
    let mut x = stream.growing::<u8>(PAGE, 64 * PAGE)?;
    let address = usize::try_from(x.address()).expect("an address of this process");
    x.grow_to(2 * PAGE)?;
    let bytes = std::ptr::with_exposed_provenance_mut::<u8>(address);
    // SAFETY: two pages of this process, which no operation uses now.
    let bytes = unsafe { std::slice::from_raw_parts_mut(bytes, 2 * PAGE) };
    assert_eq!(bytes, [0; 2 * PAGE], "they are initialised");
    bytes.fill(7);
    x.grow_to(8 * PAGE)?;
    stream.fill_bytes(&mut x.slice_mut(7 * PAGE..), 1)?;
    assert_eq!(stream.download(&x.slice(..2 * PAGE))?, [7; 2 * PAGE]);
    Ok(())
}

/// A ticket covers all work that was enqueued in the stream, even if an event was recorded before
/// the wait.
#[test]
fn a_ticket_stands_for_a_wait_for_an_event_of_other_code() -> Result<()> {
    let device = Device::host(HostConfig::default())?.remove(0);
    let (theirs, ours) = (device.stream()?, device.stream()?);
    let mut x = ours.alloc::<u8>(64)?;
    let (signal, event) = (device.signal(), device.event()?);
    let waits = signal.clone();
    theirs.host_fn(move || waits.wait())?;
    event.record(&theirs)?;
    ours.fill_bytes(&mut x, 1)?;
    let before = ours.ticket()?;
    // SAFETY: the event is alive.
    unsafe { ours.wait_raw(event.as_raw())? };
    let after = ours.ticket()?;
    before.wait()?;
    let while_they_work = after.query()?;
    signal.set();
    assert_eq!(while_they_work, Readiness::NotReady);
    after.wait()
}

/// A tensor as a framework makes it, with a shape of two dimensions.
struct Tensor {
    elements: Vec<f32>,
    shape: [i64; 2],
    strides: [i64; 2],
    given_back: Arc<AtomicU32>,
}

unsafe extern "C" fn give_back(managed: *mut DlManagedTensor) {
    // SAFETY: `tensor` made the two boxes, and the consumer calls this once.
    let managed = unsafe { Box::from_raw(managed) };
    // SAFETY: as above.
    let tensor = unsafe { Box::from_raw(managed.manager_ctx.cast::<Tensor>()) };
    assert_eq!(tensor.elements.len(), 12);
    tensor.given_back.fetch_add(1, Ordering::Relaxed);
}

fn tensor(
    shape: [i64; 2],
    strides: [i64; 2],
    edit: impl FnOnce(&mut DlManagedTensor),
) -> (NonNull<DlManagedTensor>, Arc<AtomicU32>) {
    use trijet::memory::dlpack::{DlDevice, DlTensor, DlType};
    let given_back = Arc::<AtomicU32>::default();
    let elements = (0_u8..12).map(f32::from).collect();
    let tensor = Tensor { elements, shape, strides, given_back: Arc::clone(&given_back) };
    let tensor = Box::leak(Box::new(tensor));
    let mut managed = DlManagedTensor {
        tensor: DlTensor {
            data: tensor.elements.as_mut_ptr().cast(),
            device: DlDevice { device_type: 1, device_id: 0 },
            ndim: 2,
            dtype: DlType { code: 2, bits: 32, lanes: 1 },
            shape: tensor.shape.as_mut_ptr(),
            strides: tensor.strides.as_mut_ptr(),
            byte_offset: 0,
        },
        manager_ctx: std::ptr::from_mut(tensor).cast(),
        deleter: Some(give_back),
    };
    edit(&mut managed);
    (NonNull::from(Box::leak(Box::new(managed))), given_back)
}

#[test]
fn a_dense_tensor_is_a_buffer_and_is_given_back_once() -> Result<()> {
    let device = device();
    let stream = device.stream()?;
    for (strides, offset) in [([4, 1], 0), ([4, 1], 16)] {
        let rows = if offset == 0 { 3 } else { 2 };
        let (tensor, given_back) =
            tensor([rows, 4], strides, |managed| managed.tensor.byte_offset = offset);
        // SAFETY: a live tensor, which is handed over.
        let x = unsafe { device.from_dlpack::<f32>(tensor)? };
        let mut h = device.pinned::<f32>(x.len())?;
        stream.copy(&x, &mut h)?;
        assert_eq!(h.read()?[0], if offset == 0 { 0.0 } else { 4.0 });
        assert_eq!(h.read()?.len() as i64, rows * 4);
        drop(x);
        assert_eq!(given_back.load(Ordering::Relaxed), 1);
    }
    Ok(())
}

/// NumPy exports a tensor without elements with strides of 0, PyTorch with strides of `max(size,
/// 1)` and a null address.
#[test]
fn a_tensor_without_elements_is_taken_whatever_its_strides_and_address_are() -> Result<()> {
    let device = device();
    let stream = device.stream()?;
    for shape in [[0, 5], [5, 0], [0, 0]] {
        for strides in [[0, 0], [5, 1], [1, 1], [7, -3]] {
            let (tensor, given_back) = tensor(shape, strides, |managed| {
                managed.tensor.data = std::ptr::null_mut();
                managed.tensor.byte_offset = 3;
            });
            // SAFETY: the test made the tensor, and gives it away here.
            let x = unsafe { device.from_dlpack::<f32>(tensor)? };
            assert_eq!(stream.download(&x)?, [], "{shape:?} {strides:?}");
            drop(x);
            device.synchronize()?;
            assert_eq!(given_back.load(Ordering::Relaxed), 1, "{shape:?} {strides:?}");
        }
    }
    let (negative, given_back) = tensor([0, -1], [0, 0], |_| ());
    // SAFETY: the call refuses the tensor before it looks at the memory.
    let refused = unsafe { device.from_dlpack::<f32>(negative) };
    assert_eq!(refused.expect_err("negative").kind(), ErrorKind::InvalidValue);
    assert_eq!(given_back.load(Ordering::Relaxed), 1);
    Ok(())
}

#[test]
fn a_tensor_that_is_no_buffer_is_refused_and_given_back() {
    let device = device();
    type Edit = fn(&mut DlManagedTensor);
    let cases: [(&str, [i64; 2], Edit); 6] = [
        ("transposed", [1, 4], |_| ()),
        ("of another type", [4, 1], |managed| managed.tensor.dtype.code = 0),
        ("of another width", [4, 1], |managed| managed.tensor.dtype.bits = 64),
        ("of vectors", [4, 1], |managed| managed.tensor.dtype.lanes = 4),
        ("on a GPU", [4, 1], |managed| managed.tensor.device.device_type = 2),
        ("of negative dimensions", [4, 1], |managed| managed.tensor.ndim = -1),
    ];
    for (what, strides, edit) in cases {
        let (tensor, given_back) = tensor([3, 4], strides, edit);
        // SAFETY: a live tensor, which is handed over.
        let refused = unsafe { device.from_dlpack::<f32>(tensor) };
        assert_eq!(refused.expect_err(what).kind(), ErrorKind::InvalidValue, "{what}");
        assert_eq!(given_back.load(Ordering::Relaxed), 1, "{what}");
    }
}
