//! Measures chains of kernels that are launched one after another, as a graph, and as dependent
//! launches.

use super::bench::Bench;
use crate::bare::chain::{ChainCost, ChainLink, Chains};
use crate::doctor::findings::ChainLaunch;
use crate::stats::Samples;
use trijet::Result;

/// The number of kernels of a chain that is launched one after another. It is half the depth of a
/// hardware queue.
const KERNELS: u32 = 500;
/// The number of kernels of a graph of empty kernels. The time of this graph is the cost of the
/// launches within the graph.
const EMPTY_KERNELS: u32 = 1000;
/// The lowest compute capability with dependent launches.
const DEPENDENT_FROM: (u32, u32) = (9, 0);

/// Names in the findings. The advice finds the rows of chains by these names.
pub(in crate::doctor) const PLAIN: &str = "a block per SM";
pub(in crate::doctor) const STREAMED: &str = "launched one by one";
pub(in crate::doctor) const GRAPH: &str = "as a graph";

fn name(link: ChainLink) -> &'static str {
    match link {
        ChainLink::Empty => "empty, one block",
        ChainLink::Plain => PLAIN,
        ChainLink::WaitThenTrigger => "dependent: wait, then trigger",
        ChainLink::TriggerThenWait => "dependent: trigger, then wait",
    }
}

fn chain(link: ChainLink, way: &'static str, kernels: u32, costs: &[ChainCost]) -> ChainLaunch {
    let (mut kernel_ns, mut launch_ns) = (Samples::default(), Samples::default());
    for cost in costs {
        kernel_ns.push(cost.kernel);
        launch_ns.push(cost.call);
    }
    ChainLaunch { kernel: name(link), way, kernels, kernel_ns, launch_ns }
}

pub(super) fn measure(bench: &mut Bench) -> Result<()> {
    let Some(lab) = &bench.lab else { return Ok(()) };
    let dependent = bench.found.device.compute >= DEPENDENT_FROM;
    let chains = Chains::new(lab, bench.found.device.multiprocessors, dependent)?;
    let launches = u32::try_from(bench.plan.repeats).unwrap_or(u32::MAX);
    let mut links = vec![ChainLink::Empty, ChainLink::Plain];
    if dependent {
        links.extend([ChainLink::WaitThenTrigger, ChainLink::TriggerThenWait]);
    }
    for link in links {
        let mut streamed = Vec::new();
        for _ in 0..=launches {
            streamed.push(chains.streamed(link, KERNELS)?);
        }
        bench.found.chains.push(chain(link, STREAMED, KERNELS, &streamed[1..]));
        let kernels = if link == ChainLink::Empty { EMPTY_KERNELS } else { KERNELS };
        let graphed = chains.graphed(link, kernels, launches)?;
        bench.found.chains.push(chain(link, GRAPH, kernels, &graphed));
    }
    if !dependent {
        bench.absent("dependent launches", "they need compute capability 9.0");
    }
    Ok(())
}
