//! The task of an array of jobs, from the variables that Slurm, SGE and PBS set for it.
//!
//! Many arrays have a file for each task, so a task of an array does the whole job unless the user
//! asks for its part by `--shard auto`.
#![forbid(unsafe_code)]

use std::fmt;
use trijet::{Error, ErrorKind, Result};
use trijet_io::{Shard, shown};

/// The names of the variables of an array.
struct ArrayVariables {
    name: &'static str,
    /// The number of the task.
    task: &'static str,
    /// The number of the first task, of the last one, and the distance between two tasks.
    range: Option<[&'static str; 3]>,
    /// The number of tasks, if a variable has it.
    count: Option<&'static str>,
}

const ARRAYS: [ArrayVariables; 4] = [
    ArrayVariables {
        name: "Slurm array",
        task: "SLURM_ARRAY_TASK_ID",
        range: Some(["SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MAX", "SLURM_ARRAY_TASK_STEP"]),
        count: Some("SLURM_ARRAY_TASK_COUNT"),
    },
    ArrayVariables {
        name: "SGE array",
        task: "SGE_TASK_ID",
        range: Some(["SGE_TASK_FIRST", "SGE_TASK_LAST", "SGE_TASK_STEPSIZE"]),
        count: None,
    },
    // PBS sets no variable for the number of tasks.
    ArrayVariables { name: "PBS array", task: "PBS_ARRAY_INDEX", range: None, count: None },
    ArrayVariables { name: "PBS array", task: "PBS_ARRAYID", range: None, count: None },
];

/// The part of a task of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArrayPart {
    pub(crate) shard: Shard,
    /// The kind of array.
    pub(crate) array: &'static str,
    /// The names of the variables for the task and for the number of tasks.
    pub(crate) variables: [&'static str; 2],
}

impl fmt::Display for ArrayPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {} ({})", self.shard.index(), self.shard.count(), self.array)
    }
}

/// A task of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ArrayTask {
    Part(ArrayPart),
    /// A task whose array does not tell its part. The text has the reason.
    Unknown(String),
}

fn refused(cause: String) -> Error {
    Error::new(ErrorKind::InvalidValue, "map", cause)
}

/// The task that `value` describes, a function from the name of a variable to its value. `None`
/// outside of an array, and in an array of one task.
///
/// # Errors
/// A variable that is not a number, and variables of two arrays.
pub(crate) fn of(value: impl Fn(&str) -> Option<String>) -> Result<Option<ArrayTask>> {
    // SGE sets the text `undefined` outside of arrays.
    let text = |name: &str| {
        value(name)
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty() && text != "undefined")
    };
    let number = |name: &'static str| -> Result<Option<u64>> {
        let wrong = |text: &str| refused(format!("{name} is `{text}`, which is not a number"));
        text(name).map(|text| text.parse().map_err(|_| wrong(&text))).transpose()
    };
    let mut found: Option<(&ArrayVariables, ArrayTask)> = None;
    for array in &ARRAYS {
        let Some(task) = number(array.task)? else { continue };
        if let Some((other, _)) = &found
            && other.name != array.name
        {
            return Err(refused(format!(
                "conflicting variables of arrays: {} and {} are set; use --shard I/N",
                other.task, array.task
            )));
        }
        let part = match array.range {
            None => ArrayTask::Unknown(format!(
                "{} is set, but no variable has the number of tasks",
                array.task
            )),
            Some(names) => {
                let [first, last, step] = names.map(number);
                let count = array.count.map(number).transpose()?.flatten();
                part_of(array, task, [first?, last?, step?], count)?
            }
        };
        found = Some((array, part));
    }
    let is_one =
        |task: &ArrayTask| matches!(task, ArrayTask::Part(rank) if rank.shard.count() == 1);
    Ok(found.map(|(_, task)| task).filter(|task| !is_one(task)))
}

/// The part of the task `task` of an array from `first` to `last` with the distance `step`.
fn part_of(
    array: &ArrayVariables,
    task: u64,
    [first, last, step]: [Option<u64>; 3],
    count: Option<u64>,
) -> Result<ArrayTask> {
    let unknown = |cause: &str| Ok(ArrayTask::Unknown(format!("{}: {cause}", array.name)));
    let (Some(first), Some(last)) = (first, last) else {
        return unknown("its first or last task is not set");
    };
    let step = step.filter(|step| *step > 0).unwrap_or(1);
    let all = last.checked_sub(first).map(|range| range / step + 1);
    // The tasks of an array may be any numbers, such as 1,5,7.
    if all.is_none() || count.is_some_and(|count| Some(count) != all) {
        return unknown("its tasks are not numbered at equal distances");
    }
    let index = task.checked_sub(first).filter(|beyond| beyond.is_multiple_of(step));
    let shard = index.zip(all).and_then(|(index, all)| Shard::new(index / step, all));
    let names = [array.task, array.count.unwrap_or("SGE_TASK_LAST")];
    match shard {
        Some(shard) => {
            Ok(ArrayTask::Part(ArrayPart { shard, array: array.name, variables: names }))
        }
        None => Err(refused(format!(
            "{} is {task}, but the array goes from {first} to {last} in steps of {step}",
            array.task
        ))),
    }
}

/// The task of the array in whose job this process is.
///
/// # Errors
/// As for [`of`].
pub(crate) fn of_environment() -> Result<Option<ArrayTask>> {
    of(|name| std::env::var_os(name).map(|value| shown(&value).to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(variables: &[(&str, &str)]) -> Result<Option<ArrayTask>> {
        of(|name| variables.iter().find(|one| one.0 == name).map(|one| one.1.to_owned()))
    }

    #[track_caller]
    fn part(variables: &[(&str, &str)]) -> String {
        match task(variables).unwrap().unwrap() {
            ArrayTask::Part(rank) => rank.to_string(),
            ArrayTask::Unknown(cause) => cause,
        }
    }

    const SLURM: [(&str, &str); 5] = [
        ("SLURM_ARRAY_TASK_ID", "7"),
        ("SLURM_ARRAY_TASK_COUNT", "4"),
        ("SLURM_ARRAY_TASK_MIN", "1"),
        ("SLURM_ARRAY_TASK_MAX", "7"),
        ("SLURM_ARRAY_TASK_STEP", "2"),
    ];

    #[test]
    fn arrays_are_counted_from_their_first_task() {
        assert_eq!(part(&SLURM), "rank 3 of 4 (Slurm array)");
        let sge = [
            ("SGE_TASK_ID", "5"),
            ("SGE_TASK_FIRST", "5"),
            ("SGE_TASK_LAST", "7"),
            ("SGE_TASK_STEPSIZE", "1"),
        ];
        assert_eq!(part(&sge), "rank 0 of 3 (SGE array)");
        assert_eq!(task(&[]).unwrap(), None);
        assert_eq!(task(&[("SGE_TASK_ID", "undefined")]).unwrap(), None);
        let mut one = SLURM;
        one[0].1 = "1";
        one[1].1 = "1";
        one[3].1 = "1";
        assert_eq!(task(&one).unwrap(), None);
    }

    #[test]
    fn an_array_that_does_not_tell_the_part_says_why() {
        assert!(part(&[("PBS_ARRAY_INDEX", "2")]).contains("PBS_ARRAY_INDEX is set"));
        assert!(part(&[("PBS_ARRAYID", "2")]).contains("number of tasks"));
        let mut list = SLURM;
        list[1].1 = "3";
        assert!(part(&list).contains("equal distances"));
        assert!(part(&SLURM[..2]).contains("first or last task"));
    }

    #[test]
    fn contradictions_are_refused() {
        let told = |variables: &[(&str, &str)]| task(variables).unwrap_err().to_string();
        let two = [&SLURM[..], &[("PBS_ARRAY_INDEX", "1")]].concat();
        assert!(told(&two).contains("SLURM_ARRAY_TASK_ID and PBS_ARRAY_INDEX"));
        assert!(told(&[("PBS_ARRAY_INDEX", "x")]).contains("PBS_ARRAY_INDEX is `x`"));
        let mut odd = SLURM;
        odd[0].1 = "4";
        assert!(told(&odd).contains("SLURM_ARRAY_TASK_ID is 4"), "{}", told(&odd));
        odd[0].1 = "9";
        assert!(told(&odd).contains("from 1 to 7 in steps of 2"));
    }
}
