//! The part of a sequence of names that repeats.
//!
//! A step starts with a name, or with a short row of names, that occurs once in each step. So every
//! row of up to 32 names that occurs often enough is tried. Each row cuts the sequence into pieces.
//! Steps are the pieces that have the same names as most other pieces. Names are compared as a set
//! with counts, so the order within a step may change. The row with the shortest steps is used.
//!
//! The search looks at 262,144 names in the middle of the sequence, so its time is bounded. The
//! result is then followed through the whole sequence in linear time.
#![forbid(unsafe_code)]

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;

/// Minimum number of steps that count as a repetition.
const STEPS_MIN: usize = 8;
/// Maximum number of names that are searched.
const SEARCHED_MAX: usize = 1 << 18;
/// The lengths of rows that are tried, as powers of two: 1 to 32.
const LEVELS: u32 = 6;
/// A piece that is no step counts as minus this many steps. So fewer than one piece in ten of a
/// repetition may be no step.
const DIFFERENT: i64 = 9;
/// Maximum part of the names by which a step may differ if no steps are equal: one in four.
const VARIED: usize = 4;
/// Maximum number of names that are tried as the start of similar steps.
const TRIED_MAX: usize = 64;

/// One step of a sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PeriodStep {
    /// The indices of the step's names in the sequence.
    pub(super) place: Range<usize>,
    /// Whether the step has the same names as most steps.
    pub(super) is_regular: bool,
}

/// The steps of a sequence, one after another.
#[derive(Debug)]
pub(super) struct Period {
    pub(super) steps: Vec<PeriodStep>,
    /// The number of names in a regular step.
    pub(super) length: usize,
}

/// How the names of two steps are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Likeness {
    /// All names are the same.
    Equal,
    /// At most one name in four differs.
    Similar,
}

/// The shortest sequence that repeats over most of `names`, which are numbers below `count`.
pub(super) fn period(names: &[u32], count: usize, likeness: Likeness) -> Option<Period> {
    let middle = names.len().saturating_sub(SEARCHED_MAX) / 2;
    let searched = &names[middle..(middle + SEARCHED_MAX).min(names.len())];
    let row = match likeness {
        Likeness::Equal => equal(&NameSequence::of(searched)),
        Likeness::Similar => similar(&NameSequence::of(searched), count),
    }?;
    let row = &searched[row];
    let places: Vec<usize> = names
        .windows(row.len())
        .enumerate()
        .filter(|(_, window)| *window == row)
        .map(|(place, _)| place)
        .collect();
    let all = NameSequence::of(names);
    let fit = match likeness {
        Likeness::Equal => all.equal_steps(&places),
        Likeness::Similar => all.similar_steps(&places, &mut NameCounts::new(count)),
    }?;
    Some(all.period(&places, &fit))
}

/// The row that starts the shortest steps with equal names, as the range of its first occurrence.
fn equal(sequence: &NameSequence<'_>) -> Option<Range<usize>> {
    let mut found: Vec<(Fit, Range<usize>)> = Vec::new();
    let mut keys: Vec<u64> = sequence.names.iter().map(|name| mixed(u64::from(*name))).collect();
    for level in 0..LEVELS {
        let length = 1_usize << level;
        let mut places: Vec<usize> = (0..keys.len()).collect();
        places.sort_unstable_by_key(|&place| (keys[place], place));
        for places in places.chunk_by(|&a, &b| keys[a] == keys[b]) {
            let fit = sequence.equal_steps(places);
            found.extend(fit.map(|fit| (fit, places[0]..places[0] + length)));
        }
        // Computes the keys of all rows of twice the length.
        let Some(twice) = keys.len().checked_sub(length) else { break };
        for place in 0..twice {
            keys[place] = mixed(keys[place].wrapping_mul(3).wrapping_add(keys[place + length]));
        }
        keys.truncate(twice);
    }
    best(found)
}

/// The name that starts the shortest steps with similar names, as the range of its first
/// occurrence.
fn similar(sequence: &NameSequence<'_>, count: usize) -> Option<Range<usize>> {
    let mut places: Vec<usize> = (0..sequence.names.len()).collect();
    places.sort_unstable_by_key(|&place| (sequence.names[place], place));
    let mut names: Vec<&[usize]> =
        places.chunk_by(|&a, &b| sequence.names[a] == sequence.names[b]).collect();
    names.retain(|places| sequence.are_alike_in_length(places));
    names.sort_by_key(|places| (Reverse(places.len()), places[0]));
    names.truncate(TRIED_MAX);
    let mut counts = NameCounts::new(count);
    let fits = names.iter().filter_map(|places| {
        let fit = sequence.similar_steps(places, &mut counts)?;
        Some((fit, places[0]..places[0] + 1))
    });
    best(fits.collect())
}

/// The row that starts the best of these steps. The best steps are the shortest ones. Among the
/// shortest steps, only steps with at least 99 % of the largest `worth` count. Among the remaining
/// steps, the steps with the shortest row are best. Among those, the steps that begin first are
/// best.
fn best(found: Vec<(Fit, Range<usize>)>) -> Option<Range<usize>> {
    let length = found.iter().map(|(fit, _)| fit.length).min()?;
    let shortest = || found.iter().filter(|(fit, _)| fit.length == length);
    let most = shortest().map(|(fit, _)| fit.worth).max()?;
    let good = shortest().filter(|(fit, _)| fit.worth >= most - most / 100);
    good.min_by_key(|(fit, row)| (row.len(), fit.begin)).map(|(_, row)| row.clone())
}

/// Steps between consecutive occurrences of a row.
struct Fit {
    /// For each piece from one occurrence to the next, by its index: whether the piece is a step
    /// with the usual names.
    is_regular: Vec<bool>,
    /// The indices of the pieces that repeat.
    pieces: Range<usize>,
    /// The position in the sequence at which the first of these pieces begins.
    begin: usize,
    /// The number of names in a step.
    length: usize,
    /// The number of names in regular steps, less `length` for each other piece.
    worth: usize,
    /// Whether the names after the last piece are a step as well.
    has_last: bool,
}

/// A sequence with the sums of the keys of its names. The key of a name is a number that [`mixed`]
/// computes. If the sums of two parts are equal, the parts have the same names, except with
/// negligible probability.
struct NameSequence<'a> {
    names: &'a [u32],
    /// For each position in `names`, the sum of the keys of all names before it.
    sums: Vec<u64>,
}

impl<'a> NameSequence<'a> {
    fn of(names: &'a [u32]) -> Self {
        let mut sum = 0_u64;
        let mut sums = vec![0];
        sums.extend(names.iter().map(|name| {
            sum = sum.wrapping_add(mixed(u64::from(*name) | 1 << 32));
            sum
        }));
        Self { names, sums }
    }

    /// The sum of the keys of a part.
    fn sum(&self, part: &Range<usize>) -> u64 {
        self.sums[part.end].wrapping_sub(self.sums[part.start])
    }

    /// The steps that start at these positions, if the steps have equal names.
    fn equal_steps(&self, places: &[usize]) -> Option<Fit> {
        if places.len() < STEPS_MIN {
            return None;
        }
        // For each set of names, by its sum of keys: the number of its occurrences, and the index
        // of its first piece.
        let mut sets: HashMap<u64, (usize, Reverse<usize>)> = HashMap::new();
        for (piece, place) in pieces(places).enumerate() {
            sets.entry(self.sum(&place)).or_insert((0, Reverse(piece))).0 += 1;
        }
        let often = sets.into_iter().filter(|(_, (count, _))| *count + 1 >= STEPS_MIN);
        let names = |count: usize, first: usize| count * (places[first + 1] - places[first]);
        let usual = often.max_by_key(|(_, (count, first))| (names(*count, first.0), *first));
        let (sum, (_, Reverse(first))) = usual?;
        let length = places[first + 1] - places[first];
        self.fit(places, length, |part| self.sum(part) == sum)
    }

    /// The steps that start at these positions, if the steps have similar names.
    fn similar_steps(&self, places: &[usize], counts: &mut NameCounts) -> Option<Fit> {
        let usual = usual_length(places)?;
        counts.set(&self.names[usual.clone()]);
        let room = usual.len() / VARIED;
        self.fit(places, usual.len(), |part| {
            part.len().abs_diff(usual.len()) <= room
                && counts.difference(&self.names[part.clone()], room) <= room
        })
    }

    /// Whether most pieces from one of these positions to the next have similar lengths.
    fn are_alike_in_length(&self, places: &[usize]) -> bool {
        usual_length(places).is_some_and(|usual| {
            let room = usual.len() / VARIED;
            self.fit(places, usual.len(), |part| part.len().abs_diff(usual.len()) <= room).is_some()
        })
    }

    /// The longest stretch of pieces in which nearly all pieces are steps. `None` if the stretch
    /// does not cover enough of the sequence.
    fn fit(
        &self,
        places: &[usize],
        length: usize,
        mut is_step: impl FnMut(&Range<usize>) -> bool,
    ) -> Option<Fit> {
        let is_regular: Vec<bool> = pieces(places).map(|piece| is_step(&piece)).collect();
        let stretch = stretch(&is_regular);
        let after = places[stretch.end];
        let last = after..after + length;
        let has_last = last.end <= self.names.len() && is_step(&last);
        let regular = pieces(places).zip(&is_regular).skip(stretch.start).take(stretch.len());
        let regular: Vec<_> =
            regular.filter(|(_, is)| **is).map(|(piece, _)| piece.len()).collect();
        let steps = regular.len() + usize::from(has_last);
        let different = stretch.len() - regular.len();
        let covered = regular.iter().sum::<usize>() + if has_last { length } else { 0 };
        let worth = covered.saturating_sub(different * length);
        let begin = places[stretch.start];
        let end = if has_last { last.end } else { after };
        // Longer pieces between the steps may have most of the names. Then there are too few steps.
        let is_enough = covered * 4 >= (end - begin) * 3 && covered * 3 >= self.names.len();
        (steps >= STEPS_MIN && is_enough).then_some(Fit {
            is_regular,
            pieces: stretch,
            begin,
            length,
            worth,
            has_last,
        })
    }

    fn period(&self, places: &[usize], fit: &Fit) -> Period {
        let step = |piece: usize| PeriodStep {
            place: places[piece]..places[piece + 1],
            is_regular: fit.is_regular[piece],
        };
        let mut steps: Vec<PeriodStep> = fit.pieces.clone().map(step).collect();
        if fit.has_last {
            let begin = places[fit.pieces.end];
            steps.push(PeriodStep { place: begin..begin + fit.length, is_regular: true });
        }
        Period { steps, length: fit.length }
    }
}

/// The pieces of the sequence, each from one position to the next.
fn pieces(places: &[usize]) -> impl Iterator<Item = Range<usize>> {
    places.windows(2).map(|pair| pair[0]..pair[1])
}

/// The first piece of the median length. `None` if there are too few pieces.
fn usual_length(places: &[usize]) -> Option<Range<usize>> {
    if places.len() < STEPS_MIN {
        return None;
    }
    let mut lengths: Vec<usize> = pieces(places).map(|piece| piece.len()).collect();
    lengths.sort_unstable();
    let median = lengths[lengths.len() / 2];
    pieces(places).find(|piece| piece.len() == median)
}

/// The stretch of pieces with the largest sum, in which a regular piece counts 1 and any other
/// piece counts -9. So more than nine in ten pieces of the stretch are regular. The stretch is then
/// extended by adjacent pieces as long as most of the added pieces are regular: a program may write
/// a log after its first steps.
fn stretch(is_regular: &[bool]) -> Range<usize> {
    let dense = dense(is_regular);
    if dense.is_empty() {
        return dense;
    }
    let before = with_excess(is_regular[..dense.start].iter().rev());
    let after = with_excess(is_regular[dense.end..].iter());
    dense.start - before..dense.end + after
}

/// The number of pieces, counted from the first piece, for which the regular pieces outnumber the
/// other pieces by the most.
fn with_excess<'a>(pieces: impl Iterator<Item = &'a bool>) -> usize {
    let (mut best, mut most, mut sum) = (0, 0, 0_i64);
    for (piece, is_regular) in pieces.enumerate() {
        sum += if *is_regular { 1 } else { -1 };
        if sum > most {
            (best, most) = (piece + 1, sum);
        }
    }
    best
}

fn dense(is_regular: &[bool]) -> Range<usize> {
    let (mut best, mut most) = (0..0, 0);
    let (mut start, mut sum) = (0, 0_i64);
    for (piece, is_regular) in is_regular.iter().enumerate() {
        sum += if *is_regular { 1 } else { -DIFFERENT };
        if sum <= 0 {
            (start, sum) = (piece + 1, 0);
        } else if sum > most {
            (best, most) = (start..piece + 1, sum);
        }
    }
    best
}

/// The names of a step.
struct NameCounts {
    /// The number of occurrences of each name, by the number of the name.
    of: Vec<i64>,
    /// The number of names in the step.
    length: usize,
}

impl NameCounts {
    /// Counts without names. The names that will be counted are numbers below `count`.
    fn new(count: usize) -> Self {
        Self { of: vec![0; count], length: 0 }
    }

    fn of(&mut self, name: u32) -> &mut i64 {
        &mut self.of[usize::try_from(name).unwrap_or(usize::MAX)]
    }

    fn set(&mut self, names: &[u32]) {
        self.of.fill(0);
        self.length = names.len();
        names.iter().for_each(|name| *self.of(*name) += 1);
    }

    /// The number of names that only the step has, or the number of names that only `names` has,
    /// whichever is larger. A result above `room` may be too small.
    fn difference(&mut self, names: &[u32], room: usize) -> usize {
        let (mut more, mut seen) = (0, 0);
        for name in names {
            seen += 1;
            let left = self.of(*name);
            *left -= 1;
            more += usize::from(*left < 0);
            if more > room {
                break;
            }
        }
        names[..seen].iter().for_each(|name| *self.of(*name) += 1);
        let shared = seen - more;
        more.max(self.length.saturating_sub(shared))
    }
}

/// A number that is statistically independent of `key` (the last step of splitmix64).
pub(super) fn mixed(key: u64) -> u64 {
    let key = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let key = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ (key >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    key ^ (key >> 31)
}
