//! Derives verdicts from times: whether the host waited, whether a stream was held back, and when a
//! queue or the device was full. The functions only compute with numbers, so that tests need no
//! device.
#![forbid(unsafe_code)]

use std::fmt;

/// The times of one observation. A long kernel is launched on stream a, a call is made, and a short
/// kernel is launched on stream b. The host measures all times in microseconds since the launch on
/// a.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// The time at which the call started.
    pub call_us: f64,
    /// The time at which the call returned.
    pub returned_us: f64,
    /// Whether the long kernel on a still ran when the call returned.
    pub running: bool,
    /// The time at which the launch of the short kernel on b returned.
    pub issued_us: f64,
    /// The time of the first query that found the long kernel on a complete.
    pub a_end_us: f64,
    /// The time of the first query that found the short kernel on b complete.
    pub b_end_us: f64,
}

/// The effect of a call on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostVerdict {
    /// The call returned while the long kernel ran.
    Free,
    /// The call returned after the end of the long kernel, and is much shorter on an idle device.
    Waits,
    /// The call returned after the end of the long kernel, but is almost as long on an idle device.
    Unclear,
}

/// The effect of a call on the short kernel, which runs on another stream than the long kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StreamVerdict {
    /// The short kernel ended while the long kernel ran.
    Free,
    /// The short kernel ended after the long kernel.
    HeldBack,
    /// The call delayed the host, which launched the short kernel only after the end of the long
    /// kernel.
    IssuedAfter,
    /// The short kernel ended too shortly before the end of the long kernel for a verdict.
    Unclear,
}

impl fmt::Display for HostVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Free => "free",
            Self::Waits => "waits",
            Self::Unclear => "unclear",
        })
    }
}

impl fmt::Display for StreamVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Free => "free",
            Self::HeldBack => "held back",
            Self::IssuedAfter => "issued after",
            Self::Unclear => "unclear",
        })
    }
}

/// If a call takes long even on an idle device, there is no verdict about its effect on the host.
/// The limit is this fraction of the time from the call to the end of the long kernel.
const OWN_SHARE_MAX: f64 = 0.5;

/// Judges the effect of the call on the host. `alone_us` is the host time of the call on an idle
/// device, in microseconds.
///
/// ```
/// use trijet_tools::doctor::verdict::{HostVerdict, Observation, host};
/// let o = Observation {
///     call_us: 10.0, returned_us: 29_990.0, running: false,
///     issued_us: 29_995.0, a_end_us: 29_992.0, b_end_us: 30_010.0,
/// };
/// assert_eq!(host(&o, 60.0), HostVerdict::Waits);
/// assert_eq!(host(&o, 23_600.0), HostVerdict::Unclear);
/// ```
#[must_use]
pub fn host(o: &Observation, alone_us: f64) -> HostVerdict {
    if o.running {
        HostVerdict::Free
    } else if alone_us > OWN_SHARE_MAX * (o.a_end_us - o.call_us) {
        HostVerdict::Unclear
    } else {
        HostVerdict::Waits
    }
}

/// Judges the effect of the call on the short kernel on stream b.
#[must_use]
pub fn stream(o: &Observation) -> StreamVerdict {
    if !o.running || o.a_end_us <= o.issued_us {
        StreamVerdict::IssuedAfter
    } else if o.b_end_us >= o.a_end_us {
        StreamVerdict::HeldBack
    } else if o.b_end_us - o.issued_us <= 0.5 * (o.a_end_us - o.issued_us) {
        StreamVerdict::Free
    } else {
        StreamVerdict::Unclear
    }
}

/// The verdict that occurs most often, and the number of its occurrences. If several verdicts occur
/// equally often, the result is the smallest of them. `None` if there are no verdicts.
#[must_use]
pub fn majority<V: Copy + Ord>(verdicts: &[V]) -> Option<(V, usize)> {
    let count = |v: &V| verdicts.iter().filter(|other| *other == v).count();
    verdicts.iter().map(|v| (*v, count(v))).max_by(|a, b| a.1.cmp(&b.1).then(b.0.cmp(&a.0)))
}

/// The number of launches that a busy stream accepts before a launch is delayed. Each launch has
/// its start and its end, in microseconds since the start of the busy kernel. The busy kernel runs
/// for `kernel_us` microseconds. A launch is delayed if it starts in the first half of this time,
/// and takes more than a quarter of this time.
///
/// # Errors
/// The number of all launches, if no launch was delayed.
pub fn queue_depth(launches: &[(f64, f64)], kernel_us: f64) -> Result<u64, u64> {
    let held =
        |(begin, end): &(f64, f64)| *begin < 0.5 * kernel_us && end - begin > 0.25 * kernel_us;
    match launches.iter().position(held) {
        Some(at) => Ok(at as u64),
        None => Err(launches.len() as u64),
    }
}

/// The number of equal kernels that ran at the same time. Each of `streams` streams had one kernel.
/// All kernels together took `whole_us` microseconds, and one kernel alone takes `one_us`
/// microseconds. The kernels ran in waves. The number of waves is `whole_us` divided by `one_us`.
///
/// ```
/// use trijet_tools::doctor::verdict::at_once;
/// assert_eq!([at_once(16, 8_100.0, 4_000.0), at_once(16, 4_200.0, 4_000.0)], [8, 16]);
/// ```
#[must_use]
pub fn at_once(streams: u64, whole_us: f64, one_us: f64) -> u64 {
    // A cast of a float to an integer saturates.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative")]
    let waves = (whole_us / one_us).round().max(1.0) as u64;
    streams.div_ceil(waves)
}

/// The number of equal kernels that ran at the same time. `ends_us` are the ends of the kernels in
/// microseconds. A kernel counts if it ended within one and a half times `kernel_us`, which is the
/// time of a kernel alone. On a busy machine, even the first kernel may take longer than
/// `kernel_us`. In this case, the end of the first kernel is used instead of `kernel_us`.
#[must_use]
pub fn resident(ends_us: &[f64], kernel_us: f64) -> u64 {
    let first = ends_us.iter().copied().fold(f64::INFINITY, f64::min);
    let limit = 1.5 * first.max(kernel_us);
    ends_us.iter().filter(|end| **end <= limit).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An observation of a long kernel of 30 ms, a call that returns after `call` microseconds, and
    /// a short kernel that ends at `b_end` microseconds.
    fn observed(call: f64, b_end: f64) -> Observation {
        let (a_end, returned) = (30_000.0, 5.0 + call);
        let issued = returned + 4.0;
        let a_end_seen = f64::max(a_end, returned);
        Observation {
            call_us: 5.0,
            returned_us: returned,
            running: returned < a_end,
            issued_us: issued,
            a_end_us: a_end_seen,
            b_end_us: b_end,
        }
    }

    #[test]
    fn an_allocation_that_does_not_wait_is_free() {
        // A call of `cuMemAlloc` with 1 GiB took 408 us while a kernel of 30 ms ran.
        let o = observed(408.0, 440.0);
        assert_eq!((host(&o, 400.0), stream(&o)), (HostVerdict::Free, StreamVerdict::Free));
    }

    #[test]
    fn a_free_that_waits_for_the_device_has_no_verdict_on_the_stream() {
        let o = observed(29_998.0, 30_020.0);
        assert_eq!((host(&o, 55.0), stream(&o)), (HostVerdict::Waits, StreamVerdict::IssuedAfter));
    }

    #[test]
    fn page_locking_that_takes_long_by_itself_is_no_wait() {
        // A call for 64 MiB takes 23.6 ms. The long kernel still runs when the call returns.
        let o = observed(23_600.0, 23_650.0);
        assert_eq!((host(&o, 23_600.0), stream(&o)), (HostVerdict::Free, StreamVerdict::Free));
        // A call for 96 MiB takes longer than the long kernel, so there is no verdict.
        let o = observed(35_400.0, 35_450.0);
        assert_eq!(host(&o, 35_400.0), HostVerdict::Unclear);
    }

    #[test]
    fn a_kernel_that_ends_after_the_long_one_was_held_back() {
        assert_eq!(stream(&observed(3.0, 30_004.0)), StreamVerdict::HeldBack);
        assert_eq!(stream(&observed(3.0, 30_000.0)), StreamVerdict::HeldBack);
        assert_eq!(stream(&observed(3.0, 25_000.0)), StreamVerdict::Unclear);
    }

    #[test]
    fn the_majority_counts_and_ties_go_to_the_first_in_order() {
        use StreamVerdict::{Free, HeldBack};
        assert_eq!(majority(&[Free, HeldBack, HeldBack]), Some((HeldBack, 2)));
        assert_eq!(majority(&[HeldBack, Free]), Some((Free, 1)));
        assert_eq!(majority::<StreamVerdict>(&[]), None);
    }

    #[test]
    fn the_queue_is_full_where_a_launch_lasts_until_the_kernel_ends() {
        let mut launches: Vec<(f64, f64)> =
            (0..1021).map(|n| (f64::from(n) * 3.0, f64::from(n) * 3.0 + 2.4)).collect();
        assert_eq!(queue_depth(&launches, 30_000.0), Err(1021));
        launches.push((3063.0, 30_001.0));
        assert_eq!(queue_depth(&launches, 30_000.0), Ok(1021));
        // The host was interrupted for a millisecond in this launch. The launch was not delayed by
        // a full queue.
        launches[10].1 += 1000.0;
        assert_eq!(queue_depth(&launches, 30_000.0), Ok(1021));
    }

    /// The number of waves is rounded to the nearest integer.
    #[test]
    fn kernels_at_once_follow_from_the_number_of_waves() {
        assert_eq!([63.0, 32.3, 40.1, 39.0].map(|ms| at_once(64, ms * 1e3, 4e3)), [4, 8, 7, 7]);
        assert_eq!(at_once(8, 3_900.0, 4_000.0), 8, "faster than one alone is one wave");
        assert_eq!(at_once(8, 80_000.0, 4_000.0), 1, "more waves than streams are one at a time");
    }

    #[test]
    fn kernels_of_the_second_wave_were_not_resident() {
        let ends: Vec<f64> = (0..200).map(|n| if n < 128 { 8_100.0 } else { 16_200.0 }).collect();
        assert_eq!(resident(&ends, 8_000.0), 128);
        let late: Vec<f64> = ends.iter().map(|end| end + 5_000.0).collect();
        assert_eq!(resident(&late, 8_000.0), 128, "all began late");
    }
}
