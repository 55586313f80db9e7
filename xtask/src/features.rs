//! `features`: compiles the library with no feature and with each feature alone, and every other
//! package with only the features of the library that it names. A warning is a mistake too.
#![forbid(unsafe_code)]

use crate::tools::{self, Result};
use serde_json::Value;
use std::process::{Command, Stdio};

/// Packages that name features of the library. A build of the whole workspace has all features, so
/// only a build of one package shows that it names enough.
const USERS: [&str; 6] =
    ["trijet-alloc", "trijet-io", "trijet-tools", "trijet-programs", "trijet-bench", "trijet-cli"];

/// Compiles all combinations, and prints what fails.
pub(crate) fn run() -> Result<()> {
    let features = features(&output(&["metadata", "--format-version=1", "--no-deps"])?)?;
    let mut mistakes = check("trijet", &["--no-default-features"])?;
    for feature in &features {
        mistakes += check("trijet", &["--no-default-features", "--features", feature])?;
    }
    for package in USERS {
        mistakes += check(package, &[])?;
    }
    match mistakes {
        0 => Ok(()),
        some => Err(format!("features: {some} mistakes").into()),
    }
}

/// The features of the library, other than the default.
fn features(metadata: &str) -> Result<Vec<String>> {
    let metadata: Value = serde_json::from_str(metadata)?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata has no packages")?;
    let library = packages.iter().find(|package| package["name"] == "trijet");
    let features = library.and_then(|library| library["features"].as_object());
    let features = features.ok_or("cargo metadata has no features of trijet")?;
    Ok(features.keys().filter(|name| *name != "default").cloned().collect())
}

/// Compiles the library of a package, prints its errors and warnings, and returns their number.
fn check(package: &str, options: &[&str]) -> Result<usize> {
    println!("{package} {}", options.join(" "));
    let arguments = ["check", "--quiet", "--package", package, "--message-format=json"];
    let mut command = cargo();
    let child = command.args(arguments).args(options).stderr(Stdio::inherit()).output()?;
    let messages = String::from_utf8(child.stdout)?;
    let found = diagnostics(&messages)?;
    found.iter().for_each(|text| eprintln!("{text}"));
    Ok(found.len().max(usize::from(!child.status.success())))
}

/// The texts of the errors and warnings among the messages of cargo.
fn diagnostics(messages: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for line in messages.lines() {
        let message: Value = serde_json::from_str(line)?;
        if message["reason"] == "compiler-message" {
            let text = message["message"]["rendered"].as_str().unwrap_or("a message without text");
            found.push(text.to_owned());
        }
    }
    Ok(found)
}

fn cargo() -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(tools::root());
    command
}

fn output(arguments: &[&str]) -> Result<String> {
    let output = cargo().args(arguments).stderr(Stdio::inherit()).output()?;
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout)?),
        false => Err(format!("cargo {}: {}", arguments.join(" "), output.status).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::{diagnostics, features};

    #[test]
    fn the_features_of_the_library_are_those_of_its_manifest() {
        let metadata = r#"{"packages": [
            {"name": "other", "features": {"z": []}},
            {"name": "trijet", "features": {"default": ["a", "b"], "a": [], "b": ["a"]}}]}"#;
        assert_eq!(features(metadata).unwrap(), ["a", "b"]);
        assert!(features(r#"{"packages": []}"#).is_err());
    }

    #[test]
    fn a_warning_is_found_and_an_artifact_is_not() {
        let messages = r#"{"reason": "compiler-artifact", "fresh": true}
{"reason": "compiler-message", "message": {"level": "warning", "rendered": "warning: unused"}}
{"reason": "build-finished", "success": true}"#;
        assert_eq!(diagnostics(messages).unwrap(), ["warning: unused"]);
    }
}
