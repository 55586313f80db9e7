//! The rank of this process among those that do one job, from `--shard` or from the variables of a
//! launcher.
//!
//! Launchers are asked from the innermost to the outermost, because one may run under another: torchrun
//! under Slurm sets its own variables and inherits those of Slurm.
#![forbid(unsafe_code)]

use std::fmt;
use std::str::FromStr;
use trijet_io::Shard;

/// The rank of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rank {
    pub(crate) shard: Shard,
    /// The number among the processes on this host, if a launcher sets it.
    pub(crate) local: Option<u64>,
    /// The launcher or the option that sets the rank.
    source: &'static str,
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {} ({})", self.shard.index(), self.shard.count(), self.source)
    }
}

impl FromStr for Rank {
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
        Ok(Self { shard, local: None, source: "--shard" })
    }
}

/// The variables of a launcher.
struct Launcher {
    name: &'static str,
    index: &'static str,
    count: &'static str,
    local: &'static str,
}

const LAUNCHERS: [Launcher; 5] = [
    Launcher { name: "torchrun", index: "RANK", count: "WORLD_SIZE", local: "LOCAL_RANK" },
    Launcher {
        name: "Open MPI",
        index: "OMPI_COMM_WORLD_RANK",
        count: "OMPI_COMM_WORLD_SIZE",
        local: "OMPI_COMM_WORLD_LOCAL_RANK",
    },
    Launcher {
        name: "MVAPICH2",
        index: "MV2_COMM_WORLD_RANK",
        count: "MV2_COMM_WORLD_SIZE",
        local: "MV2_COMM_WORLD_LOCAL_RANK",
    },
    Launcher { name: "MPI", index: "PMI_RANK", count: "PMI_SIZE", local: "MPI_LOCALRANKID" },
    // srun sets the number of tasks of the step. A batch script has the other two variables without
    // it, although it runs once.
    Launcher {
        name: "Slurm",
        index: "SLURM_PROCID",
        count: "SLURM_STEP_NUM_TASKS",
        local: "SLURM_LOCALID",
    },
];

/// The rank that the launcher of this process has set; `None` without a launcher, and if this process
/// is the only one. `value` gives the value of a variable.
///
/// # Errors
/// A variable that is not a number, or that contradicts another one.
pub(crate) fn of_environment(
    value: impl Fn(&str) -> Option<String>,
) -> Result<Option<Rank>, String> {
    for launcher in LAUNCHERS {
        let (Some(index), Some(count)) = (value(launcher.index), value(launcher.count)) else {
            continue;
        };
        let local = value(launcher.local);
        // RANK and WORLD_SIZE are common names. torchrun sets the third one, too.
        if launcher.name == "torchrun" && local.is_none() {
            continue;
        }
        let number = |name: &str, text: &str| {
            let wrong = |_| format!("{name} is `{text}`, which is not a number; use --shard I/N");
            text.trim().parse::<u64>().map_err(wrong)
        };
        let (index, count) = (number(launcher.index, &index)?, number(launcher.count, &count)?);
        let local = local.map(|local| number(launcher.local, &local)).transpose()?;
        let shard = Shard::new(index, count).ok_or_else(|| {
            format!(
                "{} is {index} and {} is {count}: a rank is less than the number of ranks; use \
                 --shard I/N",
                launcher.index, launcher.count
            )
        })?;
        return Ok((count > 1).then_some(Rank { shard, local, source: launcher.name }));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Index, count, number on the host, and launcher.
    type Said = (u64, u64, Option<u64>, &'static str);

    fn of(variables: &[(&str, &str)]) -> Result<Option<Said>, String> {
        let value = |name: &str| {
            let found = variables.iter().find(|(one, _)| *one == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let rank = of_environment(value)?;
        Ok(rank.map(|rank| (rank.shard.index(), rank.shard.count(), rank.local, rank.source)))
    }

    #[test]
    fn each_launcher_is_known() {
        let torchrun = [("RANK", "3"), ("WORLD_SIZE", "8"), ("LOCAL_RANK", "1")];
        assert_eq!(of(&torchrun), Ok(Some((3, 8, Some(1), "torchrun"))));
        let open_mpi = [
            ("OMPI_COMM_WORLD_RANK", "0"),
            ("OMPI_COMM_WORLD_SIZE", "2"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "0"),
        ];
        assert_eq!(of(&open_mpi), Ok(Some((0, 2, Some(0), "Open MPI"))));
        assert_eq!(of(&[("PMI_RANK", "1"), ("PMI_SIZE", "2")]), Ok(Some((1, 2, None, "MPI"))));
        let slurm = [("SLURM_PROCID", "5"), ("SLURM_STEP_NUM_TASKS", "6"), ("SLURM_LOCALID", "1")];
        assert_eq!(of(&slurm), Ok(Some((5, 6, Some(1), "Slurm"))));
    }

    /// A batch script runs once, whatever the number of tasks that it may start.
    #[test]
    fn one_process_is_no_rank() {
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8")]), Ok(None));
        assert_eq!(of(&[("RANK", "0"), ("WORLD_SIZE", "2")]), Ok(None));
        let one = [("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0")];
        assert_eq!(of(&one), Ok(None));
    }

    #[test]
    fn the_innermost_launcher_counts() {
        let both = [
            ("SLURM_PROCID", "1"),
            ("SLURM_STEP_NUM_TASKS", "2"),
            ("RANK", "9"),
            ("WORLD_SIZE", "16"),
            ("LOCAL_RANK", "1"),
        ];
        assert_eq!(of(&both), Ok(Some((9, 16, Some(1), "torchrun"))));
    }

    #[test]
    fn contradictions_are_refused() {
        let beyond = [("PMI_RANK", "2"), ("PMI_SIZE", "2")];
        assert!(of(&beyond).unwrap_err().contains("PMI_RANK is 2 and PMI_SIZE is 2"));
        let words = [("PMI_RANK", "two"), ("PMI_SIZE", "2")];
        assert!(of(&words).unwrap_err().contains("PMI_RANK is `two`"));
        for text in ["4/4", "1", "a/2", "1/", "-1/2", "0/0"] {
            assert!(text.parse::<Rank>().is_err(), "{text}");
        }
        let rank: Rank = "3/4".parse().unwrap();
        assert_eq!((rank.shard.index(), rank.shard.count()), (3, 4));
    }
}
