//! `figures`: draws the figures of the documents from the result files of the benchmarks.

use crate::tools::{Result, root};
use plotters::prelude::*;
use std::fs;

/// The file of the figure, and the results from which it is drawn.
const FIGURE: &str = "docs/policies.svg";
const RESULTS: &str = "crates/trijet-bench/results/h200/workers.csv";
/// `STEPS` has the numbers of steps of a task. `UNEVEN` has the unevenness of tasks: with an
/// unevenness of n, some tasks are up to 2^n times as long as others.
const STEPS: [u32; 3] = [1, 16, 256];
const UNEVEN: [u32; 3] = [0, 6, 12];
const POLICIES: [&str; 5] = ["static", "sharing", "stealing", "hybrid", "auto"];

/// Draws the figures of the documents.
pub(crate) fn write() -> Result<()> {
    fs::write(root().join(FIGURE), policies()?)?;
    println!("{FIGURE}: written");
    Ok(())
}

/// The median in the row `what` of the newest commit.
fn median(rows: &[csv::StringRecord], what: &str) -> Result<f64> {
    let commit = rows.last().ok_or("no results")?[4].to_owned();
    let row = rows.iter().find(|row| row[4] == commit && &row[5] == what && &row[6] == "us");
    Ok(row.ok_or_else(|| format!("no row `{what}`"))?[7].parse()?)
}

/// The text of the figure. It has a panel for each unevenness. A panel has a line for each policy:
/// the time of the policy divided by the time of the fastest policy, over the length of tasks.
fn policies() -> Result<String> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_path(root().join(RESULTS))?;
    let rows = reader.records().collect::<std::result::Result<Vec<_>, _>>()?;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (960, 320)).into_drawing_area();
        area.fill(&WHITE)?;
        for (uneven, panel) in UNEVEN.into_iter().zip(area.split_evenly((1, UNEVEN.len()))) {
            let title = match uneven {
                0 => "equal tasks".to_owned(),
                power => format!("some up to {} times as long", 1 << power),
            };
            let mut chart = ChartBuilder::on(&panel)
                .caption(title, ("sans-serif", 16))
                .margin(8)
                .x_label_area_size(36)
                .y_label_area_size(44)
                .build_cartesian_2d((1f64..256f64).log_scale(), (0.9f64..6f64).log_scale())?;
            chart
                .configure_mesh()
                .disable_mesh()
                .x_desc("steps of a task")
                .y_desc("time / fastest")
                .draw()?;
            for (number, policy) in POLICIES.into_iter().enumerate() {
                let mut points = Vec::new();
                for steps in STEPS {
                    let time = |policy: &str| {
                        median(&rows, &format!("skew base {steps} cap {uneven}: {policy}: time"))
                    };
                    let mut fastest = f64::INFINITY;
                    for other in &POLICIES[..4] {
                        fastest = fastest.min(time(other)?);
                    }
                    points.push((f64::from(steps), time(policy)? / fastest));
                }
                let color = Palette99::pick(number).to_rgba();
                let line = LineSeries::new(points, color.stroke_width(2)).point_size(3);
                let key = move |(x, y)| PathElement::new([(x, y), (x + 12, y)], color);
                chart.draw_series(line)?.label(policy).legend(key);
            }
            let mut labels = chart.configure_series_labels();
            labels.position(SeriesLabelPosition::UpperRight).background_style(WHITE).draw()?;
        }
        area.present()?;
    }
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figure_is_that_of_the_results() -> Result<()> {
        let drawn = fs::read_to_string(root().join(FIGURE))?;
        assert!(drawn == policies()?, "the figure is out of date; run `cargo xtask figures`");
        Ok(())
    }
}
