//! `browser`: opens timeline pages in a headless browser. A script uses each page as a reader
//! would, and reports every check that fails.
//!
//! The test `timeline` writes the pages. Without Chromium the task prints SKIPPED. It saves
//! pictures of the pages to `target/browser`.
#![forbid(unsafe_code)]

use crate::tools::{Result, target};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The commands that may start Chromium.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The script that collects errors. It runs before the page's own script.
const BEFORE: &str = include_str!("browser/before.js");
/// The script that uses the page. It runs after the page's own script.
const CHECK: &str = include_str!("browser/check.js");

/// The names of the pages that are checked.
const CHECKED: [&str; 2] = ["pipeline", "large"];

/// A picture of a page, with an additional script and additional arguments of the browser.
struct Picture {
    page: &'static str,
    script: &'static str,
    name: &'static str,
    arguments: &'static [&'static str],
}

const DARK: &str = "document.getElementById('theme').click();";
const PICTURES: [Picture; 6] = [
    Picture { page: "pipeline", script: "", name: "light", arguments: &[] },
    Picture { page: "pipeline", script: DARK, name: "dark", arguments: &[] },
    Picture { page: "large", script: "", name: "large", arguments: &[] },
    Picture {
        page: "pipeline",
        script: "document.getElementById('streams').click();
            document.getElementById('threads').click(); location.hash = '#hazard=0';
            dispatchEvent(new HashChangeEvent('hashchange'));",
        name: "hazard",
        arguments: &[],
    },
    Picture {
        page: "pipeline",
        script: "",
        name: "narrow",
        arguments: &["--window-size=600,1400"],
    },
    // The page as it looks without scripts.
    Picture { page: "still", script: "", name: "still", arguments: &[] },
];

/// Writes the pages, checks them, and takes pictures.
pub(crate) fn run() -> Result<()> {
    let Some(browser) = BROWSERS.into_iter().find(|name| is_installed(name)) else {
        let names = BROWSERS.join(", ");
        println!("== browser: SKIPPED {} pages: none of {names} is installed", CHECKED.len());
        return Ok(());
    };
    pages()?;
    let folder = target().join("browser");
    fs::create_dir_all(&folder)?;
    let mut failed = false;
    for name in CHECKED {
        failed |= !check_page(browser, &folder, name)?;
    }
    // Without scripts a browser shows the content of `noscript`.
    let page = page("pipeline")?;
    let still = page.replace("<noscript>", "<div>").replace("</noscript>", "</div>");
    let (before, after) = still.rsplit_once("<script>").ok_or("the page has no script element")?;
    let (_, after) = after.split_once("</script>").ok_or("the script element is not closed")?;
    fs::write(target().join("tmp/still.html"), format!("{before}{after}"))?;
    for picture in &PICTURES {
        take(browser, &folder, picture)?;
    }
    println!("== browser: pictures are in {}", folder.display());
    if failed { Err("browser: a check failed".into()) } else { Ok(()) }
}

/// Whether a command starts a browser.
fn is_installed(browser: &str) -> bool {
    let version = Command::new(browser).arg("--version").output();
    version.is_ok_and(|output| output.status.success())
}

/// Runs the test that writes the pages.
fn pages() -> Result<()> {
    let status = Command::new("cargo")
        .args(["test", "--test", "timeline", "--quiet"])
        .current_dir(crate::tools::root())
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err("browser: the test `timeline` failed, so there are no pages".into())
    }
}

fn page(name: &str) -> Result<String> {
    let path = target().join("tmp").join(format!("{name}.html"));
    fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Opens a file in the browser and returns the browser's output.
fn open(browser: &str, file: &Path, arguments: &[&str]) -> Result<Output> {
    let output = Command::new(browser)
        // The sandbox does not work for root, and a machine without a screen may have no GPU.
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
        .args(["--enable-logging=stderr", "--disable-dev-shm-usage", "--no-first-run"])
        .arg("--window-size=1400,1200")
        .args(arguments)
        .arg(format!("file://{}", file.canonicalize()?.display()))
        .output()?;
    if output.status.success() {
        return Ok(output);
    }
    let log = String::from_utf8_lossy(&output.stderr);
    Err(format!("{browser} {}: {}\n{log}", file.display(), output.status).into())
}

/// Checks a page and prints the checks that fail. Returns whether all of them hold.
fn check_page(browser: &str, folder: &Path, name: &str) -> Result<bool> {
    let checked = page(name)?
        .replacen("<head>", &format!("<head><script>{BEFORE}</script>"), 1)
        .replacen("</body>", &format!("<script>{CHECK}</script></body>"), 1);
    let file = folder.join(format!("{name}-checked.html"));
    fs::write(&file, checked)?;
    let output = open(browser, &file, &["--dump-dom"])?;
    let (page, log) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let console = log.lines().filter(|line| line.contains(":CONSOLE:"));
    let console: Vec<&str> = console.collect();
    let report = page.rsplit_once("<pre id=\"checks\"").and_then(|(_, text)| {
        let (_, text) = text.split_once('>')?;
        Some(text.split_once("</pre>")?.0.replace("&gt;", ">").replace("&amp;", "&"))
    });
    let Some(report) = report.filter(|report| report.ends_with("all done")) else {
        println!("== browser: {name}: the script did not finish\n{}", console.join("\n"));
        return Ok(false);
    };
    let failures: Vec<&str> = report.lines().filter(|line| line.starts_with("FAILED")).collect();
    let held = report.lines().filter(|line| line.starts_with("ok ")).count();
    let frames = report.lines().find(|line| line.starts_with("frames")).unwrap_or("no frames");
    println!("== browser: {name}: {held} checks passed, {} failed; {frames}", failures.len());
    failures.iter().chain(&console).for_each(|line| println!("{line}"));
    Ok(failures.is_empty() && console.is_empty() && held > 0)
}

/// Takes one picture.
fn take(browser: &str, folder: &Path, picture: &Picture) -> Result<()> {
    let script = format!("<script>{}</script></body>", picture.script);
    let file = folder.join(format!("{}.html", picture.name));
    fs::write(&file, page(picture.page)?.replacen("</body>", &script, 1))?;
    let image: PathBuf = folder.join(format!("{}.png", picture.name));
    let shot = format!("--screenshot={}", image.display());
    let mut arguments = vec![shot.as_str()];
    arguments.extend(picture.arguments);
    open(browser, &file, &arguments)?;
    if fs::metadata(&image)?.len() > 0 {
        Ok(())
    } else {
        Err(format!("browser: {} is empty", image.display()).into())
    }
}
