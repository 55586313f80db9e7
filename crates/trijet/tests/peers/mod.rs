//! Copies between devices. They need no call before: where there is a link, the first copy sets the
//! access.

use trijet::Uses;
use trijet::memory::PoolAccess;
use trijet::{Batch, Device, Result, SourceOrder};

/// Copies between both devices in both directions, in a stream of either, in batches, in graphs and
/// in the legacy stream, and once more with memory that is allocated later.
fn pair(here: &Device, there: &Device, lengths: [usize; 2]) -> Result<()> {
    for (round, len) in (0..).zip(lengths) {
        for device in [here, there] {
            let s = device.stream()?;
            let values: Vec<u32> =
                (0..u32::try_from(len).expect("few")).map(|n| n ^ (round << 28)).collect();
            let x = here.stream()?.upload(&values)?;
            let mut y = there.stream()?.alloc::<u32>(len)?;
            let mut z = here.stream()?.alloc::<u32>(len)?;
            s.copy(&x, &mut y)?;
            s.copy(&y, &mut z)?;
            assert!(s.download(&z)? == values, "{round}");

            let (begin, end) = there.stream()?.upload(&values)?.split(len / 3);
            let (mut low, mut high) = here.stream()?.alloc::<u32>(len)?.split(len / 3);
            let mut batch = Batch::new();
            batch.add(&end, &mut high)?;
            batch.add(&begin, &mut low)?;
            s.copy_batch(batch, SourceOrder::Stream)?;
            assert!([s.download(&low)?, s.download(&high)?].concat() == values, "{round}");

            let mut graph = device.record(|g| {
                g.argument(&x)?;
                g.argument(&y)?;
                g.argument(&z)?;
                let s = g.stream()?;
                s.copy(&x.slice(..1), &mut y.slice_mut(1..2))?;
                s.copy(&y.slice(1..2), &mut z.slice_mut(2..3))
            })?;
            let arguments = Uses::new().read(x.view()).write(y.view_mut()).write(z.view_mut());
            s.launch_graph(&mut graph, arguments)?;
            assert_eq!(s.download(&z.slice(2..3))?, values[..1]);
            device.copy_now(&x, &mut y)?;
            assert!(s.download(&y)? == values, "{round}");
        }
    }
    Ok(())
}

/// The first copy gives access. If it is taken away, the next copy gives it again. `lengths` are
/// the lengths of the arrays of two rounds.
pub(crate) fn copies_between_devices_are_exact(
    devices: &[Device],
    lengths: [usize; 2],
) -> Result<()> {
    for here in devices {
        for there in devices.iter().filter(|there| there.id() != here.id()) {
            pair(here, there, lengths)?;
            assert_eq!(here.can_access(there)?, here.access_of(there)? == PoolAccess::ReadWrite);
            here.set_access(there, PoolAccess::None)?;
            assert_eq!(here.access_of(there)?, PoolAccess::None);
            pair(here, there, lengths)?;
        }
    }
    Ok(())
}
