//! The rank that a launcher has given to this process.
#![forbid(unsafe_code)]

use super::join::ProcessRank;
use super::ranks::Ranks;
use super::token::Token;
use crate::base::error::{Error, ErrorKind, Result};
use std::fmt;
use std::time::Duration;
use trijet_cupti::recorder::RANKS;

/// The default port of PyTorch. If neither a variable nor a job of Slurm determines a port, the
/// ranks use the port after this one.
const PORT: u16 = 29500;

/// The rank of this process, as the environment variables of its launcher set it.
///
/// torchrun, Open MPI, PMIx, MVAPICH2, other MPIs (PMI) and Slurm are known. One launcher may run
/// under another: torchrun under Slurm sets its own variables and inherits the variables of Slurm.
/// So the variables of the inner launcher are read first.
///
/// ```
/// use trijet::ranks::LauncherRank;
/// let variables = [("RANK", "3"), ("WORLD_SIZE", "8"), ("LOCAL_RANK", "1"),
///     ("MASTER_ADDR", "node7"), ("MASTER_PORT", "4000")];
/// let value = |name: &str| variables.iter().find(|one| one.0 == name).map(|one| one.1.to_owned());
/// let rank = LauncherRank::of(value)?.expect("it is a job of torchrun");
/// assert_eq!((rank.rank, rank.count, rank.local), (3, 8, Some(1)));
/// // torchrun itself listens at the port of the variable.
/// assert_eq!(rank.address.as_deref(), Some("node7:4001"));
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LauncherRank {
    /// The name of the launcher.
    pub launcher: &'static str,
    /// The rank of this process.
    pub rank: usize,
    /// The number of processes.
    pub count: usize,
    /// The names of the variables that set `rank` and `count`.
    pub variables: [&'static str; 2],
    /// The number of this process among the processes on this host; `None` if the launcher does not
    /// set a number. Most programs use the GPU with this number.
    pub local: Option<usize>,
    /// The host and port at which rank 0 listens; `None` if no variable names the host of rank 0.
    /// If the variables show that all processes are on this host, the host is `127.0.0.1`, and
    /// `MASTER_ADDR` is not used.
    pub address: Option<String>,
    /// The secret of the job, which only its processes know.
    token: Token,
}

/// The names of the variables that a launcher sets.
struct Launcher {
    name: &'static str,
    rank: &'static str,
    count: &'static [&'static str],
    local: &'static [&'static str],
    local_count: &'static [&'static str],
    /// Lists of variables that name the job. The first list that has a variable with a value is
    /// used. The values of all variables of this list form the name of the job.
    job: &'static [&'static [&'static str]],
}

/// The launchers, an inner launcher before the launchers that it may run under.
const LAUNCHERS: [Launcher; RANKS.len()] = {
    let [torchrun, open_mpi, mvapich2, mpi, pmix, slurm] = RANKS;
    [
        Launcher {
            name: "torchrun",
            rank: torchrun,
            count: &["WORLD_SIZE"],
            local: &["LOCAL_RANK"],
            local_count: &["LOCAL_WORLD_SIZE"],
            job: &[&["TORCHELASTIC_RUN_ID"]],
        },
        Launcher {
            name: "Open MPI",
            rank: open_mpi,
            count: &["OMPI_COMM_WORLD_SIZE"],
            local: &["OMPI_COMM_WORLD_LOCAL_RANK"],
            local_count: &["OMPI_COMM_WORLD_LOCAL_SIZE"],
            job: &[&["PMIX_NAMESPACE"], &["OMPI_MCA_ess_base_jobid"]],
        },
        Launcher {
            name: "MVAPICH2",
            rank: mvapich2,
            count: &["MV2_COMM_WORLD_SIZE"],
            local: &["MV2_COMM_WORLD_LOCAL_RANK"],
            local_count: &["MV2_COMM_WORLD_LOCAL_SIZE"],
            job: &[&["MPIRUN_ID"]],
        },
        Launcher {
            name: "MPI",
            rank: mpi,
            count: &["PMI_SIZE"],
            local: &["MPI_LOCALRANKID", "PMI_LOCAL_RANK"],
            local_count: &["MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"],
            job: &[&["PMI_JOBID"]],
        },
        // PMIx defines no variable for the number of processes. With `srun --mpi=pmix`, Slurm sets
        // `SLURM_STEP_NUM_TASKS`.
        Launcher {
            name: "PMIx",
            rank: pmix,
            count: &["PMIX_SIZE", "SLURM_STEP_NUM_TASKS"],
            local: &["PMIX_LOCAL_RANK", "SLURM_LOCALID"],
            local_count: &["PMIX_LOCAL_SIZE"],
            job: &[&["PMIX_NAMESPACE"]],
        },
        // Only srun sets `SLURM_STEP_NUM_TASKS`. A batch script runs once, and has only the
        // variables `SLURM_PROCID` and `SLURM_LOCALID`, so a batch script has no rank.
        Launcher {
            name: "Slurm",
            rank: slurm,
            count: &["SLURM_STEP_NUM_TASKS"],
            local: &["SLURM_LOCALID"],
            local_count: &[],
            job: &[&["SLURM_JOB_ID", "SLURM_STEP_ID"]],
        },
    ]
};

fn refused(cause: String) -> Error {
    Error::new(ErrorKind::InvalidValue, "launch", cause)
}

/// The environment, as a function from the name of a variable to its value.
struct Variables<F>(F);

impl<F: Fn(&str) -> Option<String>> Variables<F> {
    fn text(&self, name: &str) -> Option<String> {
        (self.0)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    /// The first of these variables that is set, and its value as a number; `None` if none is set.
    fn number(&self, names: &[&'static str]) -> Result<Option<(&'static str, usize)>> {
        for name in names {
            let Some(text) = self.text(name) else { continue };
            let wrong = |_| refused(format!("{name} is `{text}`, which is not a number"));
            return Ok(Some((name, text.parse().map_err(wrong)?)));
        }
        Ok(None)
    }

    /// The rank that a launcher has set; `None` if its variables are not set. The address is
    /// `127.0.0.1`, without a port, if all processes are on this host. Otherwise there is no
    /// address yet.
    fn of(&self, launcher: &Launcher) -> Result<Option<LauncherRank>> {
        let (Some((of_rank, rank)), Some((of_count, count))) =
            (self.number(&[launcher.rank])?, self.number(launcher.count)?)
        else {
            return Ok(None);
        };
        let local = self.number(launcher.local)?;
        // RANK and WORLD_SIZE are common names. Only torchrun sets LOCAL_RANK as well.
        if launcher.name == "torchrun" && local.is_none() {
            return Ok(None);
        }
        if rank >= count {
            let name = launcher.rank;
            return Err(refused(format!(
                "{name} is {rank} and {of_count} is {count}: a rank must be less than the number \
                 of ranks"
            )));
        }
        let local_count = self.number(launcher.local_count)?;
        if let (Some((name, local)), Some((of_count, count))) = (local, local_count)
            && local >= count
        {
            return Err(refused(format!(
                "{name} is {local} and {of_count} is {count}: a rank must be less than the \
                 number of ranks"
            )));
        }
        if let Some((name, there)) = local_count.filter(|one| one.1 > count) {
            return Err(refused(format!(
                "{name} is {there} and {of_count} is {count}: a host cannot have more ranks than the job"
            )));
        }
        // srun sets `SLURM_STEP_NUM_NODES`, the number of hosts of the step.
        let hosts = match launcher.name {
            "Slurm" => self.number(&["SLURM_STEP_NUM_NODES"])?.map(|one| one.1),
            _ => None,
        };
        let is_one_host = local_count.is_some_and(|one| one.1 == count) || hosts == Some(1);
        let address = is_one_host.then(|| "127.0.0.1".to_owned());
        let local = local.map(|local| local.1);
        let token = self.token(launcher);
        let (launcher, variables) = (launcher.name, [of_rank, of_count]);
        Ok(Some(LauncherRank { launcher, rank, count, variables, local, address, token }))
    }

    /// The token of the job: the value of `TRIJET_JOB_TOKEN`, or else the name of the job from the
    /// launcher. Without either, the token is empty.
    fn token(&self, launcher: &Launcher) -> Token {
        let own: &[&str] = &["TRIJET_JOB_TOKEN"];
        let of = |names: &&[&str]| -> Vec<String> {
            names.iter().filter_map(|name| self.text(name)).collect()
        };
        let words = [own].iter().chain(launcher.job).map(of).find(|words| !words.is_empty());
        Token::new(words.map_or(String::new(), |words| words.join(".")).as_bytes())
    }

    /// The host and port at which rank 0 listens. The host is `one_host`, or else the host that a
    /// variable names; `None` if there is neither.
    fn address(&self, one_host: Option<String>) -> Result<Option<String>> {
        let port = self.number(&["MASTER_PORT"])?.map(|one| one.1);
        let slurm = || {
            Some(first_host(
                &self.text("SLURM_STEP_NODELIST").or_else(|| self.text("SLURM_NODELIST"))?,
            ))
        };
        let nccl = self.text("NCCL_COMM_ID").filter(|_| self.text("MASTER_ADDR").is_none());
        let (host, port) = match (self.text("MASTER_ADDR"), nccl) {
            (Some(host), _) => (Some(host), port),
            (None, Some(id)) => {
                let (host, of_nccl) = id.rsplit_once(':').ok_or_else(|| {
                    refused(format!("NCCL_COMM_ID is `{id}`, which is not a host and a port"))
                })?;
                let wrong = |_| refused(format!("NCCL_COMM_ID is `{id}`, which has no port"));
                (Some(host.to_owned()), Some(of_nccl.parse::<usize>().map_err(wrong)?))
            }
            (None, None) => (slurm(), port),
        };
        // `one_host` comes first: if all processes are on one host, no other host needs to reach
        // the port.
        let Some(host) = one_host.or(host) else { return Ok(None) };
        // Different jobs of Slurm on one host have different numbers, and so different ports.
        let of_job = self.number(&["SLURM_JOB_ID"])?.map(|one| 15_000 + one.1 % 10_000);
        // The launcher or NCCL uses the port itself, so the ranks use the next port.
        let port = port.or(of_job).unwrap_or(PORT.into()) + 1;
        match u16::try_from(port) {
            Ok(port) => Ok(Some(format!("{host}:{port}"))),
            Err(_) => Err(refused(format!(
                "the ranks would use port {port}, but 65535 is the largest; set MASTER_PORT to \
                 less than 65535"
            ))),
        }
    }
}

/// The first host of a list of hosts of Slurm: `node07` for `node[07-09,12],other`.
fn first_host(list: &str) -> String {
    let Some((before, rest)) = list.split_once('[').filter(|(before, _)| !before.contains(','))
    else {
        return list.split(',').next().unwrap_or(list).to_owned();
    };
    let (inside, behind) = rest.split_once(']').unwrap_or((rest, ""));
    let number = inside.split([',', '-']).next().unwrap_or(inside);
    let suffix = behind.split(',').next().unwrap_or(behind);
    format!("{before}{number}{suffix}")
}

impl LauncherRank {
    /// Reads the rank that the launcher of this process has set. `None` without a launcher, and if
    /// there is only one process.
    ///
    /// # Errors
    /// `InvalidValue` for a variable that is not a number, or that contradicts another variable.
    pub fn of_environment() -> Result<Option<Self>> {
        Self::of(|name| std::env::var_os(name).map(|value| value.display().to_string()))
    }

    /// Reads the rank as [`LauncherRank::of_environment`] does. `value` returns the value of a
    /// variable, instead of the environment.
    ///
    /// # Errors
    /// As for [`LauncherRank::of_environment`].
    pub fn of(value: impl Fn(&str) -> Option<String>) -> Result<Option<Self>> {
        let variables = Variables(value);
        let mut found: Option<Self> = None;
        for launcher in &LAUNCHERS {
            let Some(one) = variables.of(launcher)? else { continue };
            match &found {
                None => found = Some(one),
                // torchrun may run under any launcher, and any launcher may run under Slurm. The
                // ranks that the inner and the outer launcher set may then differ.
                Some(inner) if inner.launcher == "torchrun" || one.launcher == "Slurm" => {}
                Some(inner) if (inner.rank, inner.count) == (one.rank, one.count) => {}
                Some(inner) => {
                    return Err(refused(format!(
                        "conflicting launcher variables: {inner}, but also {one}; unset one of them"
                    )));
                }
            }
        }
        let Some(mut rank) = found.filter(|rank| rank.count > 1) else { return Ok(None) };
        rank.address = variables.address(rank.address.take())?;
        Ok(Some(rank))
    }

    /// Joins the processes of the job. Each process proves that it knows the token of the job. The
    /// token is the value of `TRIJET_JOB_TOKEN`, or else the name of the job from the launcher:
    /// `TORCHELASTIC_RUN_ID` of torchrun, `SLURM_JOB_ID` and `SLURM_STEP_ID` of Slurm,
    /// `PMIX_NAMESPACE`, `OMPI_MCA_ess_base_jobid`, `PMI_JOBID` or `MPIRUN_ID` of an MPI. The name
    /// of a job is not secret: it keeps out other jobs, but not an attacker. Only a random token in
    /// `TRIJET_JOB_TOKEN` keeps out all other processes. If none of these variables is set, there
    /// is no token, as for [`Ranks::join`].
    ///
    /// # Errors
    /// `InvalidValue` without an address; otherwise as for [`Ranks::join_with_token`].
    pub fn join(&self, timeout: Duration) -> Result<Ranks> {
        let address = self.address.as_deref().ok_or_else(|| {
            refused(format!("{self}: no variable names the host of rank 0; set MASTER_ADDR"))
        })?;
        let own = ProcessRank { rank: self.rank, count: self.count, timeout };
        Ranks::with(own, address, &self.token)
    }
}

impl fmt::Display for LauncherRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {} ({})", self.rank, self.count, self.launcher)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recorder_of_foreign_programs_looks_for_the_launchers_in_the_same_order() {
        assert_eq!(LAUNCHERS.map(|launcher| launcher.rank), RANKS);
    }

    fn of(variables: &[(&str, &str)]) -> Result<Option<LauncherRank>> {
        LauncherRank::of(|name| {
            let found = variables.iter().find(|(one, _)| *one == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    /// The rank, the count, the number on the host, the launcher and the address that these
    /// variables set.
    fn said(variables: &[(&str, &str)]) -> (usize, usize, Option<usize>, &'static str, String) {
        let rank = of(variables).expect("well").expect("a job");
        let address = rank.address.unwrap_or("none".into());
        (rank.rank, rank.count, rank.local, rank.launcher, address)
    }

    #[test]
    fn each_launcher_is_known() {
        let torchrun =
            [("RANK", "3"), ("WORLD_SIZE", "8"), ("LOCAL_RANK", "1"), ("LOCAL_WORLD_SIZE", "4")];
        assert_eq!(said(&torchrun), (3, 8, Some(1), "torchrun", "none".into()));
        let open_mpi = [
            ("OMPI_COMM_WORLD_RANK", "0"),
            ("OMPI_COMM_WORLD_SIZE", "2"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "0"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
        ];
        assert_eq!(said(&open_mpi), (0, 2, Some(0), "Open MPI", "127.0.0.1:29501".into()));
        let pmi = [("PMI_RANK", "1"), ("PMI_SIZE", "2"), ("MASTER_ADDR", "a")];
        assert_eq!(said(&pmi), (1, 2, None, "MPI", "a:29501".into()));
        let slurm = [
            ("SLURM_PROCID", "5"),
            ("SLURM_STEP_NUM_TASKS", "6"),
            ("SLURM_LOCALID", "1"),
            ("SLURM_NODELIST", "gpu[007-009,12],other"),
            ("SLURM_JOB_ID", "1234567"),
        ];
        assert_eq!(said(&slurm), (5, 6, Some(1), "Slurm", "gpu007:19568".into()));
        let pmix = [("PMIX_RANK", "1"), ("SLURM_STEP_NUM_TASKS", "2"), ("NCCL_COMM_ID", "b:70")];
        assert_eq!(said(&pmix), (1, 2, None, "PMIx", "b:71".into()));
    }

    #[test]
    fn the_first_host_of_a_list_is_found() {
        for (list, first) in [
            ("a", "a"),
            ("a,b[1-2]", "a"),
            ("n[3,5-6]", "n3"),
            ("n[08-10]-ib,m", "n08-ib"),
            ("n[", "n"),
            ("", ""),
        ] {
            assert_eq!(first_host(list), first, "{list}");
        }
    }

    /// A batch script runs once, even if its job has several tasks.
    #[test]
    fn one_process_is_no_rank() {
        assert_eq!(of(&[]).unwrap(), None);
        assert_eq!(of(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8")]).unwrap(), None);
        assert_eq!(of(&[("RANK", "0"), ("WORLD_SIZE", "2")]).unwrap(), None);
        let one = [("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0")];
        assert_eq!(of(&one).unwrap(), None);
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
        assert_eq!(said(&both), (9, 16, Some(1), "torchrun", "none".into()));
    }

    /// Processes of one job have the same token, and processes of different jobs have different
    /// tokens. Debug output does not show the token.
    #[test]
    fn the_token_is_that_of_the_job() {
        let rank = |rank| [("SLURM_PROCID", rank), ("SLURM_STEP_NUM_TASKS", "2")];
        let token = |number, more: &[(&str, &str)]| {
            let rank = of(&[&rank(number)[..], more].concat());
            rank.expect("well").expect("a job").token
        };
        let of_job = |job| [("SLURM_JOB_ID", job), ("SLURM_STEP_ID", "0"), ("SLURM_LOCALID", "1")];
        assert_eq!(token("0", &of_job("7")), token("1", &of_job("7")));
        assert_ne!(token("0", &of_job("7")), token("0", &of_job("8")));
        let step = [("SLURM_JOB_ID", "7"), ("SLURM_STEP_ID", "1")];
        assert_ne!(token("0", &of_job("7")), token("0", &step));
        let own = [("TRIJET_JOB_TOKEN", "mine"), ("SLURM_JOB_ID", "7")];
        assert_eq!(token("0", &own), Token::new(b"mine"));
        assert_eq!(token("0", &[]), Token::new(b""));
        let torchrun = [("RANK", "0"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "0")];
        let run =
            [&torchrun[..], &[("TORCHELASTIC_RUN_ID", "secret"), ("SLURM_JOB_ID", "7")]].concat();
        let rank = of(&run).expect("well").expect("a job");
        assert_eq!(rank.token, Token::new(b"secret"));
        assert!(!format!("{rank:?}").contains("secret"), "{rank:?}");
    }

    /// With all ranks on one host, no other host needs to reach the port of rank 0.
    #[test]
    fn ranks_of_one_host_meet_at_its_loopback() {
        let torchrun =
            [("RANK", "1"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "1"), ("LOCAL_WORLD_SIZE", "2")];
        let slurm =
            [("SLURM_PROCID", "1"), ("SLURM_STEP_NUM_TASKS", "2"), ("SLURM_STEP_NUM_NODES", "1")];
        let named = [("MASTER_ADDR", "node7"), ("MASTER_PORT", "4000")];
        for one_host in [&torchrun[..], &slurm] {
            assert_eq!(said(&[one_host, &named].concat()).4, "127.0.0.1:4001");
        }
        let two_hosts = [&torchrun[..3], &named].concat();
        assert_eq!(said(&two_hosts).4, "node7:4001");
    }

    #[test]
    fn contradictions_are_refused() {
        let told = |variables: &[(&str, &str)]| of(variables).unwrap_err().to_string();
        let beyond = [("PMI_RANK", "2"), ("PMI_SIZE", "2")];
        assert!(told(&beyond).contains("PMI_RANK is 2 and PMI_SIZE is 2"));
        let words = [("PMI_RANK", "two"), ("PMI_SIZE", "2")];
        assert!(told(&words).contains("PMI_RANK is `two`"));
        let local =
            [("RANK", "1"), ("WORLD_SIZE", "4"), ("LOCAL_RANK", "2"), ("LOCAL_WORLD_SIZE", "2")];
        assert!(told(&local).contains("LOCAL_RANK is 2 and LOCAL_WORLD_SIZE is 2"));
        let many =
            [("RANK", "1"), ("WORLD_SIZE", "4"), ("LOCAL_RANK", "1"), ("LOCAL_WORLD_SIZE", "8")];
        assert!(told(&many).contains("a host cannot have more ranks than the job"));
        let two = [
            ("OMPI_COMM_WORLD_RANK", "0"),
            ("OMPI_COMM_WORLD_SIZE", "2"),
            ("PMI_RANK", "1"),
            ("PMI_SIZE", "2"),
        ];
        assert!(told(&two).contains("rank 0 of 2 (Open MPI), but also rank 1 of 2 (MPI)"));
        let port =
            [("PMI_RANK", "1"), ("PMI_SIZE", "2"), ("MASTER_ADDR", "a"), ("MASTER_PORT", "65535")];
        assert!(told(&port).contains("65535 is the largest"));
        let nowhere = of(&[("PMI_RANK", "1"), ("PMI_SIZE", "2")]).unwrap().unwrap();
        let error = nowhere.join(Duration::from_secs(60)).unwrap_err();
        assert!(error.to_string().contains("set MASTER_ADDR"), "{error}");
    }
}
