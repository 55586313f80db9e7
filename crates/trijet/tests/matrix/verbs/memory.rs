//! Memory: allocations, copies, fills, launches, guards, and memory of other libraries.

use super::super::held::{BEFORE, Held, LEN, WRITTEN};
use super::super::rows as row;
use super::verb::{Call, Verb, block_on, call};
use trijet::kernels::median::{Rows, load, median};
use trijet::kernels::{AFFINE_U8, FILL_U16};
use trijet::testing;
use trijet::testing::dependent::{self, Trigger};
use trijet::{Batch, Buffer, LaunchConfig, PinnedBuffer, Result, SourceOrder};

/// Prepares a call that drops a value in the context.
fn dropped<T: Send + 'static>(value: T) -> Result<Call> {
    call(move |_, _| {
        drop(value);
        Ok(())
    })
}

/// A buffer with pending work of another stream.
fn in_use(held: &Held) -> Result<Buffer<u8>> {
    let mut x = held.other.alloc(LEN)?;
    held.other.fill_bytes(&mut x, 1)?;
    Ok(x)
}

/// The verbs.
pub(super) const VERBS: &[Verb] = &[
    Verb::new("Stream::fill", row::NODE, |_| call(|h, s| s.fill(&mut h.x, WRITTEN))).x(),
    Verb::new("Stream::fill_bytes", row::NODE, |_| call(|h, s| s.fill_bytes(&mut h.x, WRITTEN)))
        .x(),
    Verb::new("Stream::copy", row::NODE, |h| {
        h.h.write()?.fill(WRITTEN);
        call(|h, s| s.copy(&h.h, &mut h.x))
    })
    .leaves([BEFORE[0], BEFORE[1], WRITTEN], [WRITTEN, BEFORE[1], WRITTEN]),
    Verb::new("Stream::copy_batch", row::NO_NODE, |h| {
        h.h.write()?.fill(WRITTEN);
        call(|h, s| {
            let mut batch = Batch::new();
            batch.add(&h.h, &mut h.x)?;
            s.copy_batch(batch, SourceOrder::Stream)
        })
    })
    .leaves([BEFORE[0], BEFORE[1], WRITTEN], [WRITTEN, BEFORE[1], WRITTEN]),
    Verb::new("Batch::add", row::LOCAL, |_| call(|h, _| Batch::new().add(&h.h, &mut h.x))),
    Verb::new("Device::copy_now", row::OWN_STREAMS, |h| {
        h.h.write()?.fill(WRITTEN);
        call(|h, _| h.device.copy_now(&h.h, &mut h.x))
    })
    .leaves([BEFORE[0], BEFORE[1], WRITTEN], [WRITTEN, BEFORE[1], WRITTEN]),
    Verb::new("Device::fill_now", row::OWN_STREAMS, |_| {
        call(|h, _| h.device.fill_now(&mut h.x, WRITTEN))
    })
    .x(),
    Verb::new("Stream::launch", row::NODE, |_| {
        call(|h, s| s.launch(&AFFINE_U8, (0.0, f32::from(WRITTEN), &h.y, &mut h.x)))
    })
    .x(),
    Verb::new("Stream::launch_with", row::NODE_OF_OTHER_MEMORY, |h| {
        let mut z = h.other.alloc::<u32>(LEN)?;
        call(move |_, s| {
            let config = LaunchConfig::new([1, 1, 1], [96, 1, 1]);
            s.launch_with(&dependent::PRODUCE, config, (3, 9, Trigger::Early, &mut z))
        })
    }),
    Verb::new("median::median", row::NODE, |_| {
        call(|h, s| {
            let at = Rows { width: 8, height: 8, first_out: 0, first_in: 0 };
            median(s, h.y.view(), h.x.view_mut(), at, 1)
        })
    })
    .leaves(BEFORE, [BEFORE[1], BEFORE[1], BEFORE[2]]),
    Verb::new("median::load", row::DEVICE, |_| call(|h, _| load::<u8>(&h.device, 1))),
    Verb::new("Device::load", row::DEVICE, |_| call(|h, _| h.device.load(&FILL_U16))),
    Verb::new("Device::parameters", row::DEVICE, |_| {
        call(|h, _| h.device.parameters(&FILL_U16).map(drop))
    }),
    Verb::new("Device::occupancy", row::DEVICE, |_| {
        call(|h, _| {
            let config = LaunchConfig::over(LEN, 64)?;
            h.device.occupancy(&FILL_U16, &config).map(drop)
        })
    }),
    Verb::new("Stream::upload", row::WAITS, |_| call(|_, s| s.upload(&[1_u8; LEN]).map(drop))),
    Verb::new("Stream::download", row::WAITS, |_| call(|h, s| s.download(&h.x).map(drop))),
    Verb::new("Device::scope", row::LOCAL, |_| call(|h, _| h.device.scope(|_| Ok(())))),
    Verb::new("Scope::upload", row::WAITS, |_| {
        call(|h, s| h.device.clone().scope(|scope| scope.upload(s, &[WRITTEN; LEN], &mut h.x)))
    })
    .x(),
    Verb::new("Scope::download", row::WAITS, |_| {
        call(|h, s| {
            let mut bytes = [0; LEN];
            h.device.clone().scope(|scope| scope.download(s, &h.x, &mut bytes))?;
            assert_eq!(bytes, [BEFORE[0]; LEN]);
            Ok(())
        })
    }),
    Verb::new("Stream::alloc", row::ALLOC, |_| call(|_, s| s.alloc::<u8>(LEN).map(drop))),
    Verb::new("Stream::alloc_zeroed", row::ALLOC, |_| {
        call(|_, s| s.alloc_zeroed::<u8>(LEN).map(drop))
    }),
    Verb::new("Stream::alloc_waiting", row::ALLOC, |_| {
        call(|_, s| s.alloc_waiting::<u8>(LEN).map(drop))
    }),
    Verb::new("Device::alloc", row::DEVICE, |_| call(|h, _| h.device.alloc::<u8>(LEN).map(drop))),
    Verb::new("Device::pinned", row::OBJECT, |_| call(|h, _| h.device.pinned::<u8>(LEN).map(drop))),
    Verb::new("Device::pageable", row::OBJECT, |_| {
        call(|h, _| h.device.pageable::<u8>(LEN).map(drop))
    }),
    Verb::new("Stream::growing", row::WAITS, |_| {
        call(|_, s| s.growing::<u8>(LEN, 1 << 20).map(drop))
    }),
    Verb::new("GrowingBuffer::grow_to", row::DEVICE, |h| {
        let mut x = h.other.growing::<u8>(LEN, 16 << 20)?;
        call(move |_, _| x.grow_to(8 << 20))
    }),
    Verb::new("GrowingBuffer::prepare", row::DEVICE, |h| {
        let x = h.other.growing::<u8>(LEN, 16 << 20)?;
        call(move |_, _| x.prepare(8 << 20))
    }),
    Verb::new("GrowingBuffer::truncate", row::LOCAL, |h| {
        let mut x = h.other.growing::<u8>(LEN, 16 << 20)?;
        call(move |_, _| {
            x.truncate(1);
            Ok(())
        })
    }),
    Verb::new("GrowingBuffer::mapped", row::LOCAL, |h| {
        let x = h.other.growing::<u8>(LEN, 16 << 20)?;
        call(move |_, _| {
            let _bytes = x.mapped();
            Ok(())
        })
    }),
    Verb::new("GrowingBuffer::named", row::LOCAL, |h| {
        let x = h.other.growing::<u8>(LEN, 16 << 20)?;
        call(move |_, _| {
            drop(x.named("a name"));
            Ok(())
        })
    }),
    Verb::new("Buffer::named", row::LOCAL, |h| {
        let x = in_use(h)?;
        call(move |_, _| {
            drop(x.named("a name"));
            Ok(())
        })
    }),
    Verb::new("Buffer::split", row::LOCAL, |h| {
        let x = in_use(h)?;
        call(move |_, _| {
            drop(x.split(1));
            Ok(())
        })
    }),
    Verb::new("Buffer::order_manually", row::LOCAL, |h| {
        let mut x = in_use(h)?;
        call(move |_, _| {
            // SAFETY: nothing uses the memory any more.
            unsafe { x.order_manually() };
            Ok(())
        })
    }),
    Verb::new("Buffer::drop", row::LOCAL, |h| dropped(in_use(h)?)),
    Verb::new("Buffer::drop of the host", row::LOCAL, |h| {
        let (x, mut y) = (in_use(h)?, h.device.pinned::<u8>(LEN)?);
        h.other.copy(&x, &mut y)?;
        dropped((y, h.device.pageable::<u8>(LEN)?))
    }),
    Verb::new("GrowingBuffer::drop", row::LOCAL, |h| {
        dropped(h.other.growing::<u8>(LEN, 16 << 20)?)
    }),
    Verb::new("Stream::drop", row::LOCAL, |h| {
        let s = h.device.stream()?;
        s.fill_bytes(&mut h.x, 1)?;
        dropped(s)
    }),
    Verb::new("Event::drop", row::LOCAL, |h| {
        let (event, timed) = (h.device.event()?, h.device.timed_event()?);
        event.record(&h.other)?;
        dropped((event, timed))
    }),
    Verb::new("Device::drop", row::LOCAL, |h| {
        dropped((h.open.devices(false)?[0].stream()?, h.other.ticket()?, h.other.ready()))
    }),
    Verb::new("Buffer::read", row::OBJECT, |h| {
        h.other.copy(&h.y, &mut h.h)?;
        h.other.synchronize()?;
        h.h.write()?.fill(3);
        call(|h, _| h.h.read().map(drop))
    }),
    Verb::new("Buffer::write", row::OBJECT, |_| {
        call(|h, _| {
            h.h.write()?.fill(WRITTEN);
            Ok(())
        })
    })
    .h(),
    Verb::new("Buffer::ready", row::OBJECT, |_| call(|h, _| block_on(h.h.ready()).map(drop))),
    Verb::new("ReadReady::poll", row::DEVICE, |h| {
        // The future borrows the memory.
        let y: &'static mut PinnedBuffer<u8> = Box::leak(Box::new(h.device.pinned(LEN)?));
        h.other.copy(&h.y, y)?;
        let ready = y.ready();
        call(move |_, _| block_on(ready).map(drop))
    }),
    Verb::new("Stream::follow_users", row::WAITS, |_| call(|h, s| s.follow_users(&h.x))),
    Verb::new("Stream::note_user", row::NOTE, |_| call(|h, s| s.note_user(&h.y))),
    Verb::new("Device::buffer_from_raw", row::OBJECT, |_| {
        call(|h, _| {
            let bytes = vec![1_u8; LEN].into_boxed_slice();
            let address = bytes.as_ptr().expose_provenance() as u64;
            // SAFETY: the owner is the box itself, and only the buffer has its address.
            unsafe { h.device.buffer_from_raw::<u8>(address, LEN, bytes) }.map(drop)
        })
    })
    .on_host(),
    Verb::new("Device::pinned_from_raw", row::OBJECT, |_| {
        call(|h, _| {
            let bytes = vec![1_u8; LEN].into_boxed_slice();
            let address = bytes.as_ptr().expose_provenance() as u64;
            // SAFETY: the owner is the box itself, whose bytes are initialised, and only the buffer
            // has its address.
            unsafe { h.device.pinned_from_raw::<u8>(address, LEN, bytes) }.map(drop)
        })
    })
    .on_host(),
    Verb::new("Buffer::into_dlpack", row::OBJECT, |h| {
        let x = in_use(h)?;
        call(move |_, _| {
            let _leaked = x.into_dlpack()?;
            Ok(())
        })
    }),
    Verb::new("Device::from_dlpack", row::OBJECT, |h| {
        let tensor = in_use(h)?.into_dlpack()?;
        let address = tensor.as_ptr().expose_provenance();
        call(move |h, _| {
            let tensor = std::ptr::with_exposed_provenance_mut(address);
            let tensor = std::ptr::NonNull::new(tensor).expect("it was one");
            // SAFETY: the preparation of this call made the tensor, and nothing else has its
            // address.
            unsafe { h.device.from_dlpack::<u8>(tensor) }.map(drop)
        })
    }),
    Verb::new("testing::script", row::LOCAL, |_| {
        call(|h, _| {
            testing::script(&h.device, vec![Box::new(|| ()) as trijet::testing::Script<'_>]);
            Ok(())
        })
    })
    .on_host(),
];
