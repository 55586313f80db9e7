//! A measured lesson as text for a terminal, and as a page.
#![forbid(unsafe_code)]

use crate::lesson::{BAD, Rows};
use crate::outcome::{FormOutcome, Outcome};
use crate::verdict::{Judgement, time};
use std::borrow::Cow;
use std::fmt::Write;
use std::ops::Range;
use trijet::Nanos;
use trijet::trace::Op;
use trijet::trace::critical::Category;
use trijet::trace::html::Page;
use trijet::trace::timeline::{extent, rows_of_streams, staircase};

/// The number of columns of the drawing of the longest form, in a terminal of 80 columns.
const COLUMNS: u64 = 66;
/// On a page, the idle time after a form is 1 / `PAUSE` of the time of this form.
const PAUSE: u64 = 10;

fn window(ops: &[Op]) -> Range<u64> {
    extent(ops).unwrap_or(0..1)
}

fn length(window: &Range<u64>) -> u64 {
    window.end - window.start
}

impl Outcome {
    /// The drawings, times, bound, remarks and verdict as text. Lines have at most 80 columns, but
    /// sentences are not broken. All forms are drawn in the same scale.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let drawn: Vec<Vec<Op>> = self.forms.iter().map(FormOutcome::ops).collect();
        let longest = drawn.iter().map(|ops| length(&window(ops))).max().unwrap_or(1);
        for ((name, form), ops) in self.lesson.forms.iter().zip(&self.forms).zip(&drawn) {
            let window = window(ops);
            let columns = (length(&window) * COLUMNS).div_ceil(longest.max(1)).max(12);
            let columns = usize::try_from(columns).unwrap_or(12);
            let drawing = match self.lesson.rows {
                Rows::Engines => staircase(ops, window, columns),
                Rows::Streams => rows_of_streams(ops, window, columns),
            };
            let time = time(form.median_ms());
            let wrong = match form.wrong {
                0 => String::new(),
                wrong => format!(", wrong in {wrong} of {} runs", form.runs),
            };
            write!(text, "{name}: {time}{wrong}\n{drawing}").expect("writing to a string");
            if let Some(seen) = &form.seen {
                writeln!(text, "    seen: {seen}").expect("writing to a string");
            }
            text.push('\n');
        }
        let verdict = self.verdict();
        // The model has no bound for a lesson that it cannot show.
        let bound = self.bound().filter(|_| verdict.judgement != Judgement::NotShown);
        if let Some((engine, busy)) = bound {
            let (engine, bound) = (Category::Engine(engine), time(busy.0 as f64 * 1e-6));
            let line = format!("bound: {engine} works for at least {bound} in every form");
            writeln!(text, "{line}").expect("writing to a string");
        }
        if let Some(said) = &self.forms[BAD].said.flag {
            let name = self.lesson.forms[BAD];
            writeln!(text, "said of \"{name}\": {said}").expect("writing to a string");
        }
        write!(text, "{}", verdict.sentence).expect("writing to a string");
        text
    }

    /// A page with the timelines of all forms, one after the other.
    #[must_use]
    pub fn page(&self) -> Page<'static> {
        let mut ops: Vec<Op> = Vec::new();
        let mut start = 0;
        for form in &self.forms {
            let settled = form.ops();
            let window = window(&settled);
            ops.extend(settled.into_iter().map(|mut op| {
                for times in [&mut op.times, &mut op.call].into_iter().flatten() {
                    let shifted = |at: Nanos| Nanos((at.0 + start).saturating_sub(window.start));
                    (times.begin, times.end) = (shifted(times.begin), shifted(times.end));
                }
                op
            }));
            start += length(&window) + length(&window) / PAUSE;
        }
        let (name, forms) = (self.lesson.name, self.lesson.forms.join(", then "));
        let title = format!("{name}: {forms}. {}", self.verdict().sentence);
        Page { title, ops: Cow::Owned(ops), ..Page::default() }
    }
}
