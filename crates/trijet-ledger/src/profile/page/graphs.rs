//! The CUDA graphs of a process on the page.
#![forbid(unsafe_code)]

use super::super::chosen::graphs::{GraphTime, NodeTime};
use super::super::process::ProcessProfile;
use crate::trace::html::{FigureTable, Section};

/// The table of the graphs of a process. `None` if it launched none.
pub(super) fn graphs_section(process: &ProcessProfile) -> Option<Section> {
    let rows = |one: &GraphTime| {
        let GraphTime { graph, launches, nodes, edges, launch, busy, names } = one;
        let figures = [busy.to_string(), launch.to_string(), launches.to_string()];
        let whole: Vec<String> = [format!("graph {graph}")]
            .into_iter()
            .chain(figures)
            .chain([nodes.to_string(), edges.to_string()])
            .collect();
        let of_name = |NodeTime { name, nodes, total }: &NodeTime| {
            let name = format!("graph {graph}: {name}");
            let (none, nodes) = (String::new, nodes.to_string());
            vec![name, total.to_string(), none(), none(), nodes, none()]
        };
        [whole].into_iter().chain(names.iter().map(of_name)).collect::<Vec<_>>()
    };
    (!process.graphs.is_empty()).then(|| Section {
        title: format!("CUDA graphs of process {}, over the whole run", process.process),
        table: FigureTable {
            head: ["graph", "GPU busy", "one launch", "launches", "nodes", "edges"]
                .map(str::to_owned)
                .to_vec(),
            rows: process.graphs.iter().flat_map(rows).collect(),
        },
        ..Section::default()
    })
}
