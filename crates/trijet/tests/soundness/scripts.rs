//! Scripts of host threads, and other threads at the same time.

use std::sync::mpsc::channel;
use trijet::Result;
use trijet::sim::{Executor, HostConfig, Order};
use trijet::testing::{self, Script};

use super::{PATIENCE, open};

/// Threads of tasks make calls at any time. If one of them waited for the end of the script, it
/// would wait for ever when the script waits for it, or for a lock that it holds.
#[test]
fn a_thread_outside_of_a_script_goes_on_while_the_script_waits_for_it() -> Result<()> {
    let pct = Order::Pct { seed: 1, depth: 3, steps: 50 };
    for order in [Order::Greedy, Order::Seeded(1), pct] {
        let device = open(HostConfig::new().executor(Executor::Virtual(order)))?;
        let s = device.stream()?;
        let mut x = s.alloc_zeroed::<u32>(4)?;
        let (ask, asked) = channel::<()>();
        let (tell, told) = channel();
        std::thread::scope(|scope| {
            let (s, x) = (&s, &mut x);
            scope.spawn(move || {
                asked.recv().expect("the script asks");
                let mut work = || -> Result<Vec<u32>> {
                    s.fill(x, 5)?;
                    s.synchronize()?;
                    s.download(x)
                };
                tell.send(work()).expect("the script listens");
            });
            let waits: Script<'_> = Box::new(move || {
                ask.send(()).expect("the other thread listens");
                let values = told.recv_timeout(PATIENCE).expect("the other thread goes on");
                assert_eq!(values.expect("nothing failed"), [5; 4]);
            });
            let calls: Script<'_> = Box::new(|| {
                let stream = device.stream().expect("nothing failed");
                stream.synchronize().expect("nothing failed");
            });
            testing::script(&device, vec![waits, calls]);
        });
    }
    Ok(())
}
