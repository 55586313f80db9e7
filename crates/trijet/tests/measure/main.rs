//! What the records of a run say: figures checked against arithmetic by hand, remarks against
//! programs that deserve them and corrected ones that do not.

mod causes;
mod figures;
mod lints;
mod live;
mod path;
mod random;
mod script;
mod started;
mod verdicts;
