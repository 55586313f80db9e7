//! Figures, causes and remarks of a run: compared with sums by hand, and with programs that get a
//! remark and corrected ones that do not.

mod causes;
mod figures;
mod four_engines;
mod lints;
mod live;
mod path;
mod random;
mod script;
mod started;
mod verdicts;
