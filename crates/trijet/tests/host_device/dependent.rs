//! A twin is told whether its launch is a dependent one.

use trijet::Uses;
use trijet::kernels::{ArgBlock, Code, Cost, KernelSpec, Ptr, Shape, Tile, Twin, Write};
use trijet::sim::{Executor, HostConfig, Order};
use trijet::{Buffer, Device, Kernel, LaunchConfig, Result, Stream};

/// A kernel that waits for the kernel before it. Its twin writes whether the launch was a dependent
/// one.
static TELLS: Kernel<(Ptr<Write<u32>>,)> = {
    const PTX: &str = ".version 8.0\n.target sm_90\n.address_size 64\n\
        .visible .entry tells(.param .u64 words)\n{\n    griddepcontrol.wait;\n    ret;\n}\n";
    let run: fn(&mut Tile<'_>) = |tile| {
        let dependent = u32::from(tile.config.dependent);
        tile.write::<u32>(0).fill(dependent);
    };
    let cost = |_: &ArgBlock| Cost { bytes: 0, ops: 0 };
    let twin = Twin { tile_elements: |_| 8, run, cost };
    let shape = Shape::Given(|_, _| Ok(()));
    let spec = KernelSpec::new("tells", Code::ptx(PTX), shape).twin(twin);
    // SAFETY: it takes one address, and touches nothing.
    unsafe { Kernel::declare(spec) }
};

/// The law of dependent launches: a launch is dependent only directly after another launch in its
/// stream, without a wait between the two. The reason is that the wait inside the kernel covers
/// only the kernel directly before it.
#[test]
fn a_launch_is_dependent_only_directly_behind_a_launch() -> Result<()> {
    let executor = Executor::Virtual(Order::Greedy);
    let device = Device::host(HostConfig::new().executor(executor))?.remove(0);
    let (a, b) = (device.stream()?, device.stream()?);
    let (mut x, mut y) = (a.alloc::<u32>(4)?, b.alloc::<u32>(4)?);
    let config = LaunchConfig::new([1; 3], [1; 3]).dependent();
    let launch = |s: &Stream, x: &mut Buffer<u32>| s.launch_with(&TELLS, config, (x,));
    let told = |x: &Buffer<u32>| Ok(a.download(x)?[0] == 1);
    let check = |what: &str, wanted: bool, found: Result<bool>| -> Result<()> {
        assert_eq!(found?, wanted, "{what}");
        Ok(())
    };
    launch(&a, &mut x)?;
    check("behind an allocation", false, told(&x))?;
    launch(&a, &mut x)?;
    check("behind a download", false, told(&x))?;
    launch(&a, &mut x)?;
    launch(&a, &mut x)?;
    check("behind a launch", true, told(&x))?;
    launch(&a, &mut x)?;
    launch(&b, &mut y)?;
    launch(&a, &mut y)?;
    check("behind a launch, and a wait for another stream", false, told(&y))?;
    launch(&b, &mut y)?;
    let event = device.event()?;
    event.record(&b)?;
    launch(&a, &mut x)?;
    a.wait(&event)?;
    launch(&a, &mut x)?;
    check("behind a wait of the program", false, told(&x))?;
    let legacy = device.legacy_stream()?;
    launch(&legacy, &mut x)?;
    launch(&legacy, &mut x)?;
    check("in the legacy stream", false, told(&x))?;
    let mut graph = device.record(|g| {
        g.argument(&x)?;
        let s = g.stream()?;
        launch(&s, &mut x)?;
        launch(&s, &mut x)
    })?;
    a.launch_graph(&mut graph, Uses::new().write(x.view_mut()))?;
    check("in a graph, behind a launch", true, told(&x))?;
    let mut graph = device.record(|g| {
        g.argument(&x)?;
        g.argument(&y)?;
        let (s, other) = (g.stream()?, g.stream()?);
        launch(&s, &mut x)?;
        launch(&other, &mut y)?;
        launch(&s, &mut y)
    })?;
    a.launch_graph(&mut graph, Uses::new().write(x.view_mut()).write(y.view_mut()))?;
    check("in a graph, behind a launch and a node of another stream", false, told(&y))?;
    let mut graph = device.record(|g| {
        g.argument(&x)?;
        let (s, other) = (g.stream()?, g.stream()?);
        launch(&other, &mut x)?;
        launch(&s, &mut x)
    })?;
    a.launch_graph(&mut graph, Uses::new().write(x.view_mut()))?;
    check("in a graph, behind a launch of another stream only", false, told(&x))?;
    device.synchronize()
}
