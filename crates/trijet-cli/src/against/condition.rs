//! Conditions of `--fail-if`: a metric, `>` or `<`, and an amount.
//!
//! An amount with a sign is a change against the base, and one without a sign is the value itself.
//! A percentage is of the base, so it needs a sign.
#![forbid(unsafe_code)]

use trijet::Nanos;

/// The unit of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetricUnit {
    Time,
    Bytes,
    Count,
}

/// The quantities that conditions are about.
pub(crate) trait Metric: Sized {
    /// The metrics, for an error.
    const NAMES: &'static str;
    /// A condition, for an error.
    const EXAMPLE: &'static str;

    /// The metric with these words.
    fn parse(words: &str) -> Option<Self>;
    fn unit(&self) -> MetricUnit;
}

/// A figure of both runs. A part is `None` if its run does not tell it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Figure {
    pub(crate) base: Option<f64>,
    pub(crate) now: Option<f64>,
}

impl Figure {
    /// The change in percent of the base. `None` if the base is 0 or a part is unknown.
    pub(crate) fn percent(self) -> Option<f64> {
        let (base, now) = (self.base?, self.now?);
        (base != 0.0).then(|| 100.0 * (now - base) / base)
    }

    /// Both values, and the change.
    pub(crate) fn words(self, unit: MetricUnit) -> String {
        let words = |value: Option<f64>| value.map_or("unknown".to_owned(), |one| shown(one, unit));
        let change = self.percent().map_or(String::new(), |part| format!(", {part:+.1} %"));
        format!("{} before, {} now{change}", words(self.base), words(self.now))
    }
}

/// A time in nanoseconds with its unit.
pub(crate) fn time(nanos: f64) -> Nanos {
    Nanos::from_seconds(nanos * 1e-9)
}

/// A value with its unit.
fn shown(value: f64, unit: MetricUnit) -> String {
    match unit {
        MetricUnit::Time => time(value).to_string(),
        MetricUnit::Bytes => format!("{value:.0} bytes"),
        MetricUnit::Count => format!("{value:.0}"),
    }
}

/// The values for which a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Above,
    Below,
}

/// An amount of a condition.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Amount {
    /// A value of the new run.
    Value(f64),
    /// A change, in the unit of the metric.
    Change(f64),
    /// A change, in percent of the base.
    Percent(f64),
}

/// A condition under which a comparison fails.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Condition<M> {
    text: String,
    metric: M,
    side: Side,
    amount: Amount,
}

impl<M: Metric> Condition<M> {
    /// Reads a condition. The error names the word that is wrong.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        // Names of kernels may have the signs too, and amounts have not.
        let at = text.rfind(['>', '<']).ok_or_else(|| {
            format!("`{text}` has no `>` and no `<`; a condition is for example `{}`", M::EXAMPLE)
        })?;
        let side = if text[at..].starts_with('>') { Side::Above } else { Side::Below };
        let words = text[..at].trim();
        let metric = M::parse(words)
            .ok_or_else(|| format!("`{words}` is no metric; the metrics are {}", M::NAMES))?;
        let amount = amount(text[at + 1..].trim(), metric.unit())?;
        Ok(Self { text: text.trim().to_owned(), metric, side, amount })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn metric(&self) -> &M {
        &self.metric
    }

    /// Whether the condition holds. `None` if the figure does not tell.
    pub(crate) fn holds(&self, figure: Figure) -> Option<bool> {
        let now = figure.now?;
        let (value, limit) = match self.amount {
            Amount::Value(limit) => (now, limit),
            Amount::Change(limit) => (now - figure.base?, limit),
            Amount::Percent(percent) => (now - figure.base?, percent * figure.base? / 100.0),
        };
        Some(match self.side {
            Side::Above => value > limit,
            Side::Below => value < limit,
        })
    }
}

/// Units of times, in nanoseconds.
const TIMES: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
/// Units of bytes.
const BYTES: [(&str, f64); 4] =
    [("B", 1.0), ("KiB", 1024.0), ("MiB", 1_048_576.0), ("GiB", 1_073_741_824.0)];
const COUNTS: [(&str, f64); 1] = [("", 1.0)];

fn amount(text: &str, unit: MetricUnit) -> Result<Amount, String> {
    let is_of_number = |letter: char| letter.is_ascii_digit() || matches!(letter, '.' | '+' | '-');
    let end = text.find(|letter| !is_of_number(letter)).unwrap_or(text.len());
    let (number, word) = (&text[..end], text[end..].trim());
    let value: f64 = match number.parse() {
        Ok(value) => value,
        Err(_) if number.is_empty() => {
            let found = text.split(' ').next().unwrap_or_default();
            return Err(format!("`{found}` is no number"));
        }
        Err(_) => return Err(format!("`{number}` is no number")),
    };
    let has_sign = number.starts_with(['+', '-']);
    if word == "%" {
        if !has_sign {
            return Err(format!(
                "`{number} %` needs a sign, because percents are of the base: `+{number} %`"
            ));
        }
        return Ok(Amount::Percent(value));
    }
    let units: &[(&str, f64)] = match unit {
        MetricUnit::Time => &TIMES,
        MetricUnit::Bytes => &BYTES,
        MetricUnit::Count => &COUNTS,
    };
    let found = units.iter().find(|(name, _)| *name == word);
    let (_, factor) = found.ok_or_else(|| {
        let names: Vec<_> =
            units.iter().map(|(name, _)| *name).filter(|name| !name.is_empty()).collect();
        let names = [names, vec!["%"]].concat().join(", ");
        match word {
            "" => format!("`{number}` has no unit; the units are {names}"),
            other => format!("`{other}` is no unit here; the units are {names}"),
        }
    })?;
    let value = value * factor;
    Ok(if has_sign { Amount::Change(value) } else { Amount::Value(value) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A metric of each unit.
    #[derive(Debug, Clone, PartialEq)]
    enum Any {
        Step,
        Waits,
        Kernel(String),
    }

    impl Metric for Any {
        const NAMES: &'static str = "step, waits, kernel NAME";
        const EXAMPLE: &'static str = "step > +3 %";

        fn parse(words: &str) -> Option<Self> {
            match words.split_once(' ') {
                None if words == "step" => Some(Self::Step),
                None if words == "waits" => Some(Self::Waits),
                Some(("kernel", name)) => Some(Self::Kernel(name.to_owned())),
                _ => None,
            }
        }

        fn unit(&self) -> MetricUnit {
            if *self == Self::Waits { MetricUnit::Count } else { MetricUnit::Time }
        }
    }

    fn holds(text: &str, base: f64, now: f64) -> bool {
        let figure = Figure { base: Some(base), now: Some(now) };
        Condition::<Any>::parse(text).unwrap().holds(figure).unwrap()
    }

    #[test]
    fn a_sign_makes_an_amount_a_change() {
        assert!(holds("step > +3 %", 100.0, 103.5) && !holds("step > +3 %", 100.0, 103.0));
        assert!(holds("step>+3%", 100.0, 103.5), "spaces are free");
        assert!(holds("step < -3 %", 100.0, 96.0) && !holds("step < -3 %", 100.0, 98.0));
        assert!(holds("step > +1.5 us", 1000.0, 2600.0) && !holds("step > +1.5 us", 9e9, 9e9));
        assert!(holds("step > 2 ms", 3e6, 2.1e6), "a value, whatever the base is");
        assert!(holds("waits > +0", 4.0, 5.0) && !holds("waits > +0", 5.0, 5.0));
        assert!(holds("waits > +0 %", 0.0, 1.0), "everything is more than nothing");
    }

    #[test]
    fn a_name_may_have_the_signs_too() {
        let condition = Condition::<Any>::parse("kernel f<int, 2>(float*) > +5 %").unwrap();
        assert_eq!(condition.metric(), &Any::Kernel("f<int, 2>(float*)".to_owned()));
    }

    #[test]
    fn an_unknown_figure_answers_nothing() {
        let condition = |text| Condition::<Any>::parse(text).unwrap();
        let no_base = Figure { base: None, now: Some(1.0) };
        assert_eq!(condition("step > +3 %").holds(no_base), None);
        assert_eq!(condition("step > 3 ns").holds(no_base), Some(false));
        assert_eq!(condition("step > 3 ns").holds(Figure { base: Some(1.0), now: None }), None);
    }

    #[test]
    fn an_error_names_the_word_that_is_wrong() {
        for (text, words) in [
            ("stpe > +3 %", "`stpe` is no metric; the metrics are step, waits, kernel NAME"),
            ("step +3 %", "`step +3 %` has no `>` and no `<`; a condition is for example `step >"),
            ("step > 3 %", "`3 %` needs a sign, because percents are of the base: `+3 %`"),
            ("step > much more", "`much` is no number"),
            ("step > +-3 %", "`+-3` is no number"),
            ("step > 3", "`3` has no unit; the units are ns, us, ms, s, %"),
            ("step > 3 lb", "`lb` is no unit here; the units are ns, us, ms, s, %"),
            ("waits > 3 ms", "`ms` is no unit here; the units are %"),
            ("> 3 ms", "`` is no metric"),
        ] {
            let error = Condition::<Any>::parse(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
