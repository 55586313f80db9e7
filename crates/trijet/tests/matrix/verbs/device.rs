//! Devices: opening them, their streams and events, memory, traces.

use super::super::held::Held;
use super::super::rows as row;
use super::verb::{Verb, call};
use std::time::Duration;
use trijet::memory::PoolAccess;
use trijet::sim::HostConfig;
use trijet::testing;
use trijet::trace::TimesFrom;
use trijet::{Bytes, Device, HeapMode, PoolChoice, Result, Select, StreamOptions};

/// A second device of the same driver.
fn peer(held: &Held) -> Device {
    held.devices[held.devices.len() - 1].clone()
}

fn open(select: Select) -> Result<()> {
    Device::open(select).map(drop)
}

/// The verbs.
pub(super) const VERBS: &[Verb] = &[
    Verb::new("Device::open", row::OTHER_DEVICE, |_| call(|_, _| open(Select::Host(0)))),
    Verb::new("Device::host", row::OTHER_DEVICE, |_| {
        call(|_, _| Device::host(HostConfig::default()).map(drop))
    }),
    Verb::new("DeviceBuilder::open", row::OTHER_DEVICE, |_| {
        call(|_, _| Device::builder().host(HostConfig::default()).open().map(drop))
    }),
    Verb::new("DeviceBuilder::open_all", row::OTHER_DEVICE, |_| {
        call(|_, _| Device::builder().host(HostConfig::default()).open_all().map(drop))
    }),
    Verb::new("Device::cuda_devices", row::CUDA, |_| call(|_, _| Device::cuda_devices().map(drop))),
    Verb::new("Device::close", row::DEVICE_WAIT, |h| {
        let device = h.device.clone();
        call(move |_, _| device.close())
    }),
    Verb::new("Device::stream", row::DEVICE, |_| call(|h, _| h.device.stream().map(drop))),
    Verb::new("Device::stream_with", row::DEVICE, |_| {
        call(|h, _| h.device.stream_with(StreamOptions::new().blocking()).map(drop))
    }),
    Verb::new("Device::legacy_stream", row::OBJECT, |_| {
        call(|h, _| h.device.legacy_stream().map(drop))
    }),
    Verb::new("Device::per_thread_stream", row::OBJECT, |_| {
        call(|h, _| h.device.per_thread_stream().map(drop))
    }),
    Verb::new("Device::event", row::DEVICE, |_| call(|h, _| h.device.event().map(drop))),
    Verb::new("Device::timed_event", row::DEVICE, |_| {
        call(|h, _| h.device.timed_event().map(drop))
    }),
    Verb::new("Device::synchronize", row::DEVICE_WAIT, |_| call(|h, _| h.device.synchronize())),
    Verb::new("Device::memory", row::DEVICE, |_| call(|h, _| h.device.memory().map(drop))),
    Verb::new("Device::memory_stats", row::OBJECT, |_| {
        call(|h, _| h.device.memory_stats().map(drop))
    }),
    Verb::new("Device::heap_stats", row::LOCAL, |_| {
        call(|h, _| {
            let _stats = h.device.heap_stats();
            Ok(())
        })
    }),
    Verb::new("Device::reset_memory_high", row::OBJECT, |_| {
        call(|h, _| h.device.reset_memory_high())
    }),
    Verb::new("Device::keep_memory", row::OBJECT, |_| {
        call(|h, _| h.device.keep_memory(Bytes(1 << 20)))
    }),
    Verb::new("Device::set_heap_mode", row::OBJECT, |_| {
        call(|h, _| h.device.set_heap_mode(HeapMode::Footprint))
    }),
    Verb::new("Device::limit_memory", row::OBJECT, |_| {
        call(|h, _| h.device.limit_memory(Some(Bytes(1 << 30))))
    }),
    Verb::new("Device::trim_memory", row::OBJECT, |_| call(|h, _| h.device.trim_memory(Bytes(0)))),
    Verb::new("Device::decay_memory", row::OBJECT, |_| {
        call(|h, _| h.device.decay_memory(Some(Duration::from_secs(60))))
    }),
    Verb::new("Device::release_memory", row::OBJECT, |_| {
        call(|h, _| h.device.release_memory().map(drop))
    }),
    Verb::new("Device::share_pool", row::OTHER_DEVICE, |h| {
        let device = h.open.builder().pool(PoolChoice::Own).open()?;
        call(move |_, _| device.share_pool())
    }),
    Verb::new("Device::can_access", row::OBJECT, |h| {
        let peer = peer(h);
        call(move |h, _| h.device.can_access(&peer).map(drop))
    }),
    Verb::new("Device::set_access", row::OBJECT, |h| {
        let peer = peer(h);
        call(move |h, _| h.device.set_access(&peer, PoolAccess::ReadWrite))
    })
    .on_host(),
    Verb::new("Device::access_of", row::OBJECT, |h| {
        let peer = peer(h);
        call(move |h, _| h.device.access_of(&peer).map(drop))
    }),
    Verb::new("Device::check_memory", row::OTHER_DEVICE, |h| {
        let device = h.open.builder().red_zones().open()?;
        call(move |_, _| device.check_memory().map(drop))
    })
    .on_host(),
    Verb::new("probe::heap_ranges", row::LOCAL, |_| {
        call(|h, _| {
            drop(trijet::probe::heap_ranges(&h.device));
            Ok(())
        })
    }),
    Verb::new("probe::address", row::LOCAL, |h| {
        let x = h.device.stream()?.alloc::<u8>(64)?;
        call(move |_, _| {
            let _address = trijet::probe::address(&x);
            Ok(())
        })
    }),
    Verb::new("Device::ordering", row::LOCAL, |_| {
        call(|h, _| {
            let _counts = h.device.ordering();
            Ok(())
        })
    }),
    Verb::new("Device::start_trace", row::DEVICE, |h| {
        let s = h.device.stream()?;
        call(move |h, _| h.device.start_trace(&s))
    }),
    Verb::new("Device::start_trace_from", row::DEVICE, |h| {
        let s = h.device.stream()?;
        call(move |h, _| h.device.start_trace_from(&s, TimesFrom::Events))
    }),
    Verb::new("Device::take_trace", row::OBJECT, |h| {
        h.device.start_trace(&h.other)?;
        h.other.fill_bytes(&mut h.x, 1)?;
        h.other.synchronize()?;
        call(|h, _| h.device.take_trace().map(drop))
    }),
    Verb::new("testing::drop_wait", row::LOCAL, |_| {
        call(|h, _| {
            testing::drop_wait(&h.device, 1_000_000);
            Ok(())
        })
    }),
    Verb::new("testing::dropped_wait", row::LOCAL, |_| {
        call(|h, _| {
            let _dropped = testing::dropped_wait(&h.device);
            Ok(())
        })
    }),
    Verb::new("Device::verdict", row::LOCAL, |_| {
        call(|h, _| {
            drop(h.device.verdict());
            Ok(())
        })
    }),
    Verb::new("Device::signal", row::LOCAL, |_| {
        call(|h, _| {
            drop(h.device.signal());
            Ok(())
        })
    }),
    Verb::new("Signal::drop", row::LOCAL, |h| {
        let signal = h.device.signal();
        call(move |_, _| {
            drop(signal);
            Ok(())
        })
    }),
    Verb::new("Signal::set", row::LOCAL, |h| {
        let signal = h.device.signal();
        call(move |_, _| {
            signal.set();
            Ok(())
        })
    }),
    Verb::new("Signal::is_set", row::LOCAL, |h| {
        let signal = h.device.signal();
        call(move |_, _| {
            assert!(!signal.is_set());
            Ok(())
        })
    }),
    Verb::new("Signal::wait", row::LOCAL, |h| {
        let signal = h.device.signal();
        signal.set();
        call(move |_, _| {
            signal.wait();
            Ok(())
        })
    }),
    Verb::new("Signal::wait_timeout", row::LOCAL, |h| {
        let signal = h.device.signal();
        call(move |_, _| {
            assert!(!signal.wait_timeout(Duration::from_millis(1)));
            Ok(())
        })
    }),
];
