//! The body of the fuzz target `ptx`: any text is scanned, without its comments.

use trijet::kernels::lint;

/// Scans a text of these bytes.
///
/// # Panics
/// If comments before the text change the findings, or a finding names an entry that the text
/// lacks.
pub(crate) fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let found = lint(&text);
    for finding in &found {
        let entry = finding.entry.as_deref().unwrap_or_default();
        assert!(text.contains(entry), "{finding}");
    }
    assert_eq!(found, lint(&format!("// }} .entry \"\n/* {{ /* */{text}")));
}
