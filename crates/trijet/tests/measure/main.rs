//! Figures, causes and remarks of a run. They are compared with sums by hand, and with programs
//! that get a remark or, after a correction, none.

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
