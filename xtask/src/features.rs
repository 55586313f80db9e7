//! `features`: compiles the library with no feature and with each feature alone. Compiles every
//! other package with only the features of the library that the package names. A warning is a
//! mistake too.
#![forbid(unsafe_code)]

use crate::tools::{self, Result};
use serde_json::Value;
use std::process::{Command, Stdio};

/// Compiles all combinations, and prints the errors and warnings.
pub(crate) fn run() -> Result<()> {
    let metadata =
        serde_json::from_str(&output(&["metadata", "--format-version=1", "--no-deps"])?)?;
    let packages = packages(&metadata)?;
    let features = features(packages)?;
    let mut mistakes = check("trijet", &["--no-default-features"])?;
    for feature in &features {
        mistakes += check("trijet", &["--no-default-features", "--features", feature])?;
    }
    for package in users(packages) {
        mistakes += check(package, &[])?;
    }
    match mistakes {
        0 => Ok(()),
        some => Err(format!("features: {some} mistakes").into()),
    }
}

fn packages(metadata: &Value) -> Result<&[Value]> {
    let packages = metadata["packages"].as_array().ok_or("cargo metadata has no packages")?;
    Ok(packages)
}

/// The packages that depend on the library, except this one. A build of the whole workspace has all
/// features. So only a build of a single package shows that the package names enough features.
fn users(packages: &[Value]) -> impl Iterator<Item = &str> {
    let uses = |package: &&Value| {
        let mut dependencies = package["dependencies"].as_array().into_iter().flatten();
        dependencies.any(|one| one["name"] == "trijet" && one["kind"].is_null())
    };
    let names = packages.iter().filter(uses).filter_map(|package| package["name"].as_str());
    names.filter(|name| *name != env!("CARGO_PKG_NAME"))
}

/// The features of the library, except the default.
fn features(packages: &[Value]) -> Result<Vec<String>> {
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
    use super::{diagnostics, features, packages, users};
    use serde_json::json;

    #[test]
    fn the_features_of_the_library_are_those_of_its_manifest() {
        let metadata = json!({"packages": [
            {"name": "other", "features": {"z": []}},
            {"name": "trijet", "features": {"default": ["a", "b"], "a": [], "b": ["a"]}}]});
        assert_eq!(features(packages(&metadata).unwrap()).unwrap(), ["a", "b"]);
        assert!(features(&[]).is_err());
        assert!(packages(&json!({})).is_err());
    }

    #[test]
    fn a_package_that_uses_the_library_in_its_tests_only_is_no_user() {
        let packages = [
            json!({"name": "a", "dependencies": [{"name": "trijet", "kind": null}]}),
            json!({"name": "b", "dependencies": [{"name": "trijet", "kind": "dev"}]}),
            json!({"name": "c", "dependencies": [{"name": "other", "kind": null}]}),
            json!({"name": "xtask", "dependencies": [{"name": "trijet", "kind": null}]}),
        ];
        assert_eq!(Vec::from_iter(users(&packages)), ["a"]);
    }

    #[test]
    fn a_warning_is_found_and_an_artifact_is_not() {
        let messages = r#"{"reason": "compiler-artifact", "fresh": true}
{"reason": "compiler-message", "message": {"level": "warning", "rendered": "warning: unused"}}
{"reason": "build-finished", "success": true}"#;
        assert_eq!(diagnostics(messages).unwrap(), ["warning: unused"]);
    }
}
