//! The rank of this process among the processes that do one job, from `--shard` or from the
//! variables of a launcher.
#![forbid(unsafe_code)]

use crate::array_task::{self, ArrayPart, ArrayTask};
use std::fmt;
use std::str::FromStr;
use trijet::ranks::LauncherRank;
use trijet_io::Shard;

/// The part of the job that `--shard` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ShardChoice {
    Own(OwnRank),
    /// The part that the variables of a launcher or of an array set.
    Auto,
}

impl FromStr for ShardChoice {
    type Err = String;

    /// Parses `I/N` or `auto`.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" { Ok(Self::Auto) } else { text.parse().map(Self::Own) }
    }
}

/// The rank of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnRank {
    pub(crate) shard: Shard,
    /// The number of this process among the processes of the job on this host, if a launcher sets
    /// it.
    pub(crate) local: Option<u64>,
    /// The launcher or the option that sets the rank.
    source: &'static str,
    /// The names of the launcher's variables for the rank and for the number of processes. `None`
    /// if `--shard` sets the rank.
    variables: Option<[&'static str; 2]>,
}

impl OwnRank {
    /// The part of a task of an array.
    fn of_array(part: ArrayPart) -> Self {
        let ArrayPart { shard, array, variables } = part;
        Self { shard, local: None, source: array, variables: Some(variables) }
    }

    /// Explains why this process is one of several processes of a job. `None` with `--shard`,
    /// because the user has then chosen this. Without `--shard`, a launcher may have started a
    /// shell: all commands of that shell inherit the variables of the launcher.
    pub(crate) fn advice(&self) -> Option<String> {
        let [rank, count] = self.variables?;
        let launcher = self.source;
        Some(format!(
            "this process does only a part of the job, because {rank} and {count} are set \
             ({launcher}); --shard 0/1 does the whole job"
        ))
    }
}

impl fmt::Display for OwnRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {} ({})", self.shard.index(), self.shard.count(), self.source)
    }
}

impl FromStr for OwnRank {
    type Err = String;

    /// Parses `I/N`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a shard: write it like 0/4, counted from 0");
        let (index, count) = text.split_once('/').ok_or_else(wrong)?;
        let number = |digits: &str| digits.parse::<u64>().map_err(|_| wrong());
        let (index, count) = (number(index)?, number(count)?);
        let last = count.checked_sub(1).ok_or_else(wrong)?;
        let shard = Shard::new(index, count)
            .ok_or_else(|| format!("`{text}` is out of range: 0/{count} to {last}/{count}"))?;
        Ok(Self { shard, local: None, source: "--shard", variables: None })
    }
}

/// The rank that the launcher of this process has set. `None` without a launcher, and if this
/// process is the only process of the job.
///
/// # Errors
/// A variable that is not a number, or that contradicts another variable.
pub(crate) fn of_environment() -> trijet::Result<Option<OwnRank>> {
    let launch =
        LauncherRank::of_environment().map_err(|error| error.context("use --shard I/N"))?;
    Ok(launch.and_then(|launch| {
        let number = |value: usize| u64::try_from(value).ok();
        let shard = Shard::new(number(launch.rank)?, number(launch.count)?)?;
        let local = launch.local.and_then(number);
        Some(OwnRank { shard, local, source: launch.launcher, variables: Some(launch.variables) })
    }))
}

/// The part of this process for `--shard auto`: from a launcher, or from an array.
///
/// # Errors
/// Without a launcher or an array of several tasks, for an array that does not tell the part, and
/// for a launcher and an array that contradict each other.
pub(crate) fn of_any() -> trijet::Result<OwnRank> {
    let refused = |cause: String| {
        let cause = format!("--shard auto: {cause}; use --shard I/N, or --claim");
        trijet::Error::new(trijet::ErrorKind::InvalidValue, "map", cause)
    };
    match (of_environment()?, array_task::of_environment()?) {
        (Some(rank), None) => Ok(rank),
        (None, Some(ArrayTask::Part(part))) => Ok(OwnRank::of_array(part)),
        (None, None) => {
            Err(refused("no launcher and no array of several tasks is known".to_owned()))
        }
        (_, Some(ArrayTask::Unknown(cause))) => Err(refused(cause)),
        (Some(rank), Some(ArrayTask::Part(task))) if rank.shard == task.shard => Ok(rank),
        (Some(rank), Some(ArrayTask::Part(task))) => {
            Err(refused(format!("conflicting variables: {rank}, but also {task}")))
        }
    }
}

/// A line for the user about a task of an array that gets no part. `None` outside of arrays.
pub(crate) fn whole_of_array() -> trijet::Result<Option<String>> {
    let ways = "--shard auto does the part of a task, and --claim shares the job";
    Ok(match array_task::of_environment()? {
        None => None,
        Some(ArrayTask::Part(task)) => {
            Some(format!("this process does the whole job, although it is {task}; {ways}"))
        }
        Some(ArrayTask::Unknown(cause)) => {
            Some(format!("this process does the whole job, although {cause}; --claim shares it"))
        }
    })
}

/// The number of this process among the processes that a launcher has started on this host. `None`
/// if no launcher sets it, or if variables contradict each other: a process that claims rows needs
/// no rank.
pub(crate) fn local_of_environment() -> Option<u64> {
    of_environment().ok().flatten().and_then(|rank| rank.local)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_that_is_none_is_refused() {
        for text in ["4/4", "1", "a/2", "1/", "-1/2", "0/0"] {
            assert!(text.parse::<OwnRank>().is_err(), "{text}");
        }
        let rank: OwnRank = "3/4".parse().unwrap();
        assert_eq!((rank.shard.index(), rank.shard.count()), (3, 4));
    }
}
