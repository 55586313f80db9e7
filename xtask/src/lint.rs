//! Rules for PTX that the assembler does not check.
//!
//! 1. An entry that lets its dependents start early must wait for its own predecessor. Otherwise
//!    the dependents could start before the predecessor's data are complete.
//! 2. An entry that waits for its predecessor must not load through the read-only path before the
//!    wait, because such lines can be cached before the predecessor has written them.
//! 3. The static shared memory of an entry is at most 48 KiB. More needs dynamic shared memory and
//!    a function attribute.
//!
//! The rules take the order of the text for the order of execution. They are wrong only about loops.
#![forbid(unsafe_code)]

/// The most static shared memory an entry may have (CUDA C++ Programming Guide, technical
/// specifications per compute capability).
const STATIC_SHARED_BYTES_MAX: u64 = 48 * 1024;

const SIGNAL: &str = "griddepcontrol.launch_dependents";
const WAIT: &str = "griddepcontrol.wait";
const READ_ONLY: &str = "ld.global.nc";

/// A violation of a rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The entry with the violation.
    pub(crate) entry: String,
    /// A description of the violation.
    pub(crate) message: String,
}

/// An entry and the lines of its body.
struct Entry<'a> {
    name: &'a str,
    lines: Vec<&'a str>,
}

/// All violations in a PTX module.
pub(crate) fn findings(ptx: &str) -> Vec<Finding> {
    let (entries, outside) = split(ptx);
    let mut all = Vec::new();
    for entry in &entries {
        let messages = [signals_without_wait(entry), reads_early(entry), shared(entry, &outside)];
        for message in messages.into_iter().flatten() {
            all.push(Finding { entry: entry.name.to_owned(), message });
        }
    }
    all
}

fn signals_without_wait(entry: &Entry<'_>) -> Option<String> {
    let has = |what: &str| entry.lines.iter().any(|line| line.contains(what));
    (has(SIGNAL) && !has(WAIT)).then(|| format!("{SIGNAL} without {WAIT}"))
}

fn reads_early(entry: &Entry<'_>) -> Option<String> {
    let wait = entry.lines.iter().rposition(|line| line.contains(WAIT))?;
    let early = entry.lines[..wait].iter().find(|line| line.contains(READ_ONLY))?;
    Some(format!("{READ_ONLY} before {WAIT}: {}", early.trim()))
}

fn shared(entry: &Entry<'_>, outside: &[&str]) -> Option<String> {
    let own = entry.lines.iter().filter_map(|line| shared_variable(line));
    let used = outside.iter().filter_map(|line| shared_variable(line)).filter(|(name, _)| {
        entry
            .lines
            .iter()
            .any(|line| line.split(|c: char| !is_identifier(c)).any(|word| word == *name))
    });
    let bytes: u64 = own.chain(used).map(|(_, bytes)| bytes).sum();
    (bytes > STATIC_SHARED_BYTES_MAX).then(|| {
        format!(
            "{bytes} bytes of static shared memory; at most {STATIC_SHARED_BYTES_MAX} are allowed"
        )
    })
}

fn is_identifier(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$'
}

/// The name and the bytes of the shared-memory variable that a line declares.
fn shared_variable(line: &str) -> Option<(&str, u64)> {
    let words: Vec<&str> = line.trim().trim_end_matches(';').split_whitespace().collect();
    if !words.contains(&".shared") {
        return None;
    }
    let declared = words.last()?;
    let kind = words.iter().rev().nth(1)?;
    let bits: u64 = kind.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().ok()?;
    let (name, sizes) = declared.split_once('[').unwrap_or((declared, ""));
    let elements: u64 = sizes.split(['[', ']']).filter_map(|n| n.parse::<u64>().ok()).product();
    // `extern .shared` arrays have no size: they are dynamic.
    let elements = if sizes.starts_with(']') { 0 } else { elements };
    Some((name, elements * bits.div_ceil(8)))
}

/// The entries of a module, and the lines outside of any function, both without comments.
fn split(ptx: &str) -> (Vec<Entry<'_>>, Vec<&str>) {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    let mut outside = Vec::new();
    let mut depth = 0_usize;
    let mut in_entry = false;
    for line in ptx.lines() {
        let line = line.split("//").next().unwrap_or_default();
        if depth == 0 {
            if let Some((_, rest)) = line.split_once(".entry ") {
                let name = rest.split('(').next().unwrap_or_default().trim();
                entries.push(Entry { name, lines: Vec::new() });
                in_entry = true;
            } else if line.contains(".func ") {
                in_entry = false;
            }
        }
        match entries.last_mut() {
            Some(entry) if depth > 0 && in_entry => entry.lines.push(line),
            _ if depth == 0 => outside.push(line),
            _ => {}
        }
        depth += line.matches('{').count();
        depth = depth.saturating_sub(line.matches('}').count());
    }
    (entries, outside)
}

#[cfg(test)]
mod tests {
    use super::findings;

    fn entry(name: &str, body: &str) -> String {
        format!(".visible .entry {name}(\n\t.param .u64 p\n)\n{{\n{body}\n\tret;\n}}\n")
    }

    fn flagged(ptx: &str) -> Vec<String> {
        findings(ptx).into_iter().map(|found| found.entry).collect()
    }

    #[test]
    fn a_signal_needs_a_wait_in_the_same_entry() {
        let signal = "\tgriddepcontrol.launch_dependents;";
        let wait = "\tgriddepcontrol.wait;";
        let split = entry("a", signal) + &entry("b", wait);
        assert_eq!(flagged(&split), ["a"]);
        let together = entry("a", &format!("{signal}\n{wait}")) + &entry("b", wait);
        assert_eq!(flagged(&together), [""; 0]);
    }

    #[test]
    fn a_wait_in_a_comment_does_not_count() {
        let ptx = entry("a", "\tgriddepcontrol.launch_dependents;\n\t// griddepcontrol.wait;");
        assert_eq!(flagged(&ptx), ["a"]);
    }

    #[test]
    fn a_read_only_load_comes_after_the_wait() {
        let load = "\tld.global.nc.u32 %r1, [%rd1];";
        let wait = "\tgriddepcontrol.wait;";
        assert_eq!(flagged(&entry("a", &format!("{load}\n{wait}"))), ["a"]);
        assert_eq!(flagged(&entry("a", &format!("{wait}\n{load}"))), [""; 0]);
        assert_eq!(flagged(&(entry("a", load) + &entry("b", wait))), [""; 0]);
        let plain = entry("a", &format!("\tld.global.u32 %r1, [%rd1];\n{wait}"));
        assert_eq!(flagged(&plain), [""; 0]);
    }

    #[test]
    fn static_shared_memory_is_summed_per_entry() {
        let half = "\t.shared .align 8 .b8 tile[24576];";
        let other = "\t.shared .align 4 .u32 rest[6144];";
        assert_eq!(flagged(&entry("a", &format!("{half}\n{other}"))), [""; 0]);
        let more = "\t.shared .u32 one;";
        let over = entry("a", &format!("{half}\n{other}\n{more}"));
        assert!(findings(&over)[0].message.starts_with("49156 bytes"), "{:?}", findings(&over));
        assert_eq!(flagged(&(entry("a", half) + &entry("b", half) + &entry("c", half))), [""; 0]);
    }

    #[test]
    fn a_module_variable_counts_where_it_is_used() {
        let module = ".shared .align 16 .b8 big[65536];\n.extern .shared .b8 dynamic[];\n";
        let using = entry("a", "\tmov.u64 %rd1, big;");
        let other = entry("b", "\tmov.u64 %rd1, bigger;\n\tmov.u64 %rd2, dynamic;");
        assert_eq!(flagged(&format!("{module}{using}{other}")), ["a"]);
    }
}
