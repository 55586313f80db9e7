//! Graphs: recordings, changes, launches, conditions.

use super::super::held::{Held, WRITTEN};
use super::super::rows as row;
use super::verb::{Call, Verb, call};
use trijet::graph::{Graph, Recording};
use trijet::{Result, Uses};

/// A graph that fills `x`.
fn graph(held: &mut Held, value: u8) -> Result<Graph> {
    let Held { device, x, .. } = held;
    device.record(|g| step(g, x, value))
}

fn step(g: &Recording, x: &mut trijet::Buffer<u8>, value: u8) -> Result<()> {
    g.argument(x)?;
    g.stream()?.fill_bytes(x, value)
}

/// A graph that fills `x` on a condition. The first bytes of `y` are the condition.
fn conditional(held: &mut Held, value: u8) -> Result<Graph> {
    let Held { device, x, y, .. } = held;
    device.record(|g| {
        g.argument(&y.slice(..4))?;
        step(g, x, value)
    })
}

/// Prepares a call inside of a new recording.
fn recorded(run: fn(&Recording, &mut Held) -> Result<()>) -> Result<Call> {
    call(move |h, _| {
        let device = h.device.clone();
        device.record(|g| run(g, h)).map(drop)
    })
}

/// The verbs.
pub(super) const VERBS: &[Verb] = &[
    Verb::new("Device::record", row::DEVICE, |_| {
        call(|h, _| {
            let Held { device, x, .. } = h;
            device.record(|g| step(g, x, WRITTEN)).map(drop)
        })
    }),
    Verb::new("Device::record_again", row::DEVICE, |h| {
        let mut graph = graph(h, 3)?;
        call(move |h, _| {
            let Held { device, x, .. } = h;
            device.record_again(&mut graph, |g| step(g, x, WRITTEN))
        })
    }),
    Verb::new("Recording::stream", row::DEVICE, |_| recorded(|g, _| g.stream().map(drop))),
    Verb::new("Recording::stream_on", row::DEVICE, |_| {
        recorded(|g, h| g.stream_on(&h.device).map(drop))
    }),
    Verb::new("Recording::host_fn", row::DEVICE, |_| {
        recorded(|g, _| g.host_fn(&g.stream()?, || ()))
    }),
    Verb::new("Recording::argument", row::OBJECT, |_| recorded(|g, h| g.argument(&h.x))),
    Verb::new("Recording::drop_edge", row::OBJECT, |_| {
        recorded(|g, _| {
            g.drop_edge(1_000_000);
            Ok(())
        })
    }),
    Verb::new("Stream::launch_graph", row::LAUNCH, |h| {
        let mut graph = graph(h, WRITTEN)?;
        call(move |h, s| s.launch_graph(&mut graph, Uses::new().write(h.x.view_mut())))
    })
    .x(),
    Verb::new("Stream::launch_graph_if", row::CONDITION, |h| {
        let mut graph = conditional(h, WRITTEN)?;
        call(move |h, s| {
            let arguments = Uses::new().read(h.y.slice(..4)).write(h.x.view_mut());
            s.launch_graph_if(0, &mut graph, arguments)
        })
    })
    .x(),
    Verb::new("Stream::launch_graph_while", row::CONDITION, |h| {
        let Held { device, x, y, .. } = h;
        let mut graph = device.record(|g| {
            g.argument(&y.slice(..4))?;
            g.argument(x)?;
            let s = g.stream()?;
            s.fill_bytes(x, WRITTEN)?;
            s.fill_bytes(&mut y.slice_mut(..4), 0)
        })?;
        call(move |h, s| {
            let arguments = Uses::new().write(h.y.slice_mut(..4)).write(h.x.view_mut());
            s.launch_graph_while(0, &mut graph, arguments)
        })
    })
    .x(),
    Verb::new("Recording::drop", row::OBJECT, |_| recorded(|_, _| Ok(()))),
    Verb::new("Graph::drop", row::LOCAL, |h| {
        let mut graph = graph(h, 1)?;
        h.other.launch_graph(&mut graph, Uses::new().write(h.x.view_mut()))?;
        call(move |_, _| {
            drop(graph);
            Ok(())
        })
    }),
];
