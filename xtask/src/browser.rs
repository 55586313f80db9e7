//! The pages of timelines in a browser without a screen: what a reader does is done by script, and
//! the script says what did not hold.
//!
//! The pages come from the test `timeline`. Where no Chromium is found nothing runs, and the last
//! line says so. Pictures are left in `target/browser`, to be looked at.
#![forbid(unsafe_code)]

use crate::tools::{Result, target};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Names under which a Chromium may be installed.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Collects errors; runs before the page's own script.
const BEFORE: &str = include_str!("browser/before.js");
/// Does what a reader does; runs after it.
const CHECK: &str = include_str!("browser/check.js");

/// A page that is checked, and what its name is without an extension.
const CHECKED: [&str; 2] = ["pipeline", "large"];

/// A picture: of a page, with a script that runs after it, under a name, with more arguments.
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
    // The page without its script.
    Picture { page: "still", script: "", name: "still", arguments: &[] },
];

/// Makes the pages, checks them, and takes pictures.
pub(crate) fn run() -> Result<()> {
    let Some(browser) = BROWSERS.into_iter().find(|name| answers(name)) else {
        let names = BROWSERS.join(", ");
        println!("== browser: SKIPPED {} pages: none of {names} is there", CHECKED.len());
        return Ok(());
    };
    pages()?;
    let folder = target().join("browser");
    fs::create_dir_all(&folder)?;
    let mut failed = false;
    for name in CHECKED {
        failed |= !holds(browser, &folder, name)?;
    }
    // A reader without scripts sees what `noscript` holds.
    let page = page("pipeline")?;
    let still = page.replace("<noscript>", "<div>").replace("</noscript>", "</div>");
    let (before, after) = still.rsplit_once("<script>").ok_or("the page has no script")?;
    let (_, after) = after.split_once("</script>").ok_or("the script has no end")?;
    fs::write(target().join("tmp/still.html"), format!("{before}{after}"))?;
    for picture in &PICTURES {
        take(browser, &folder, picture)?;
    }
    println!("== browser: pictures are in {}", folder.display());
    if failed { Err("browser: a check failed".into()) } else { Ok(()) }
}

fn answers(browser: &str) -> bool {
    let version = Command::new(browser).arg("--version").output();
    version.is_ok_and(|output| output.status.success())
}

/// Runs the test that writes the pages.
fn pages() -> Result<()> {
    let status = Command::new("cargo")
        .args(["test", "--package", "trijet", "--test", "timeline", "--quiet"])
        .current_dir(crate::tools::root())
        .status()?;
    if status.success() { Ok(()) } else { Err("browser: the pages were not made".into()) }
}

fn page(name: &str) -> Result<String> {
    let path = target().join("tmp").join(format!("{name}.html"));
    fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Opens the page of a file and returns what the browser printed.
fn open(browser: &str, file: &Path, arguments: &[&str]) -> Result<Output> {
    let output = Command::new(browser)
        // Root has no sandbox, and a machine without a screen no GPU for it.
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
        .args(["--enable-logging=stderr", "--disable-dev-shm-usage", "--no-first-run"])
        .arg("--window-size=1400,1200")
        .args(arguments)
        .arg(format!("file://{}", file.canonicalize()?.display()))
        .output()?;
    if output.status.success() {
        return Ok(output);
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(format!("{browser} {}: {}\n{words}", file.display(), output.status).into())
}

/// Checks a page, and prints what does not hold.
fn holds(browser: &str, folder: &Path, name: &str) -> Result<bool> {
    let checked = page(name)?
        .replacen("<head>", &format!("<head><script>{BEFORE}</script>"), 1)
        .replacen("</body>", &format!("<script>{CHECK}</script></body>"), 1);
    let file = folder.join(format!("{name}-checked.html"));
    fs::write(&file, checked)?;
    let output = open(browser, &file, &["--dump-dom"])?;
    let (page, said) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let console = said.lines().filter(|line| line.contains(":CONSOLE:"));
    let console: Vec<&str> = console.collect();
    let report = page.rsplit_once("<pre id=\"checks\"").and_then(|(_, text)| {
        let (_, text) = text.split_once('>')?;
        Some(text.split_once("</pre>")?.0.replace("&gt;", ">").replace("&amp;", "&"))
    });
    let Some(report) = report.filter(|report| report.ends_with("all done")) else {
        println!(
            "== browser: {name}: the checks did not come to their end\n{}",
            console.join("\n")
        );
        return Ok(false);
    };
    let failures: Vec<&str> = report.lines().filter(|line| line.starts_with("FAILED")).collect();
    let held = report.lines().filter(|line| line.starts_with("ok ")).count();
    let frames = report.lines().find(|line| line.starts_with("frames")).unwrap_or("no frames");
    println!("== browser: {name}: {held} checks hold, {} do not; {frames}", failures.len());
    failures.iter().chain(&console).for_each(|line| println!("{line}"));
    Ok(failures.is_empty() && console.is_empty() && held > 0)
}

fn take(browser: &str, folder: &Path, picture: &Picture) -> Result<()> {
    let script = format!("<script>{}</script></body>", picture.script);
    let file = folder.join(format!("{}.html", picture.name));
    fs::write(&file, page(picture.page)?.replacen("</body>", &script, 1))?;
    let image: PathBuf = folder.join(format!("{}.png", picture.name));
    let shot = format!("--screenshot={}", image.display());
    let mut arguments = vec![shot.as_str()];
    arguments.extend(picture.arguments);
    open(browser, &file, &arguments)?;
    if fs::metadata(&image)?.len() > 0 { Ok(()) } else { Err("an empty picture".into()) }
}
