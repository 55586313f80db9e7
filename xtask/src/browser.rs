//! `browser`: opens pages of timelines, of a replay and of models in a headless browser. A script uses each
//! page as a reader would, and reports every check that fails.
//!
//! The tests `timeline` and `program_page` write the pages. Without Chromium the task prints
//! SKIPPED. It saves pictures of the pages to `target/browser`.
#![forbid(unsafe_code)]

use crate::tools::{Result, target};
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// The commands that may start Chromium.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The script that collects errors. It runs before the own script of the page.
const BEFORE: &str = include_str!("browser/before.js");
/// The script that uses the page of a run. It runs after the own script of the page.
const CHECK: &str = include_str!("browser/check.js");

/// The script that uses the page of a traced program.
const PROGRAM: &str = include_str!("browser/program.js");

/// The script that checks the page of a replay.
const REPLAY: &str = include_str!("browser/replay.js");

/// The script that checks the page of a model.
const WHAT_IF: &str = include_str!("browser/what_if.js");

/// The script that checks the page of a ledger's model.
const LEDGER: &str = include_str!("browser/ledger.js");

/// The script that compares the judge of changed ledgers with the checker.
const ORDERS: &str = include_str!("browser/orders.js");

/// A page that is checked by a script.
struct CheckedPage {
    name: &'static str,
    script: &'static str,
    /// The width of the page in pixels, for a page that must be narrower than a browser window can
    /// be. `None` for the width of the window.
    narrow: Option<u32>,
}

const CHECKED: [CheckedPage; 11] = [
    CheckedPage { name: "pipeline", script: CHECK, narrow: None },
    CheckedPage { name: "large", script: CHECK, narrow: None },
    CheckedPage { name: "program", script: PROGRAM, narrow: None },
    CheckedPage { name: "huge", script: PROGRAM, narrow: None },
    CheckedPage { name: "replay", script: REPLAY, narrow: Some(390) },
    CheckedPage { name: "what_if", script: WHAT_IF, narrow: None },
    CheckedPage { name: "what_if_huge", script: WHAT_IF, narrow: None },
    CheckedPage { name: "what_if_ledger", script: LEDGER, narrow: None },
    CheckedPage { name: "what_if_hostile", script: LEDGER, narrow: None },
    CheckedPage { name: "what_if_chunks", script: LEDGER, narrow: None },
    CheckedPage { name: "what_if_orders", script: ORDERS, narrow: None },
];
/// Maximum time for opening and checking a page.
const PATIENCE: Duration = Duration::from_secs(180);
/// The prefix of each line of the scripts' reports.
const LINE: &str = "check: ";

/// A picture of a page, with an additional script and additional arguments of the browser.
struct Picture {
    page: &'static str,
    script: &'static str,
    name: &'static str,
    arguments: &'static [&'static str],
}

/// Deletes the wait of a kernel.
const DELETED_WAIT: &str = "whatIfReady.then(page => {
        const items = Array.from(page.run.waitItem);
        page.select(items.find(item => page.run.itemKind[item] === 5 && page.run.itemChunk[item] > 8));
        document.querySelector('#actions button').click();
    });";

const DARK: &str = "document.getElementById('theme').click();";
const PICTURES: [Picture; 12] = [
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
    Picture {
        page: "program",
        script: "",
        name: "program",
        arguments: &["--window-size=1440,900"],
    },
    Picture { page: "huge", script: "", name: "huge", arguments: &["--window-size=1440,900"] },
    Picture {
        page: "what_if",
        script: "document.querySelector('#fixes input').click();",
        name: "what_if",
        arguments: &["--window-size=1440,1000"],
    },
    Picture {
        page: "what_if_huge",
        script: "document.querySelector('#fixes input').click();",
        name: "what_if_huge",
        arguments: &["--window-size=1440,1000"],
    },
    Picture {
        page: "what_if_ledger",
        script: DELETED_WAIT,
        name: "what_if_ledger",
        arguments: &["--window-size=1440,1500"],
    },
    Picture {
        page: "what_if_chunks",
        script: DELETED_WAIT,
        name: "what_if_chunks",
        arguments: &["--window-size=1440,1500"],
    },
    // The page as a browser without scripts shows it.
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
    for checked in &CHECKED {
        failed |= !check_page(browser, &folder, checked)?;
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

/// Runs the tests that write the pages.
fn pages() -> Result<()> {
    let pages = ["--test", "timeline", "--test", "program_page", "--test", "ledger_page"];
    let status = Command::new("cargo")
        .args(["test", "--quiet"])
        .args(pages)
        .env("TRIJET_WHOLE_PAGE", "1")
        .current_dir(crate::tools::root())
        .status()?;
    let orders = Command::new("cargo")
        .args(["test", "--quiet", "-p", "trijet-ledger", "--lib", "script_must_find"])
        .env("TRIJET_ORDER_CASES", target().join("tmp/what_if_orders.html"))
        .current_dir(crate::tools::root())
        .status()?;
    if status.success() && orders.success() {
        Ok(())
    } else {
        Err("browser: a test failed, so there are no pages".into())
    }
}

fn page(name: &str) -> Result<String> {
    let path = target().join("tmp").join(format!("{name}.html"));
    fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// The command that opens a file in the browser.
fn opening(browser: &str, file: &Path, arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(browser);
    command
        // The sandbox does not work for root, and a machine without a screen may have no GPU.
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
        .args(["--enable-logging=stderr", "--disable-dev-shm-usage", "--no-first-run"])
        .arg("--window-size=1440,900")
        .args(arguments)
        .arg(format!("file://{}", file.canonicalize()?.display()));
    Ok(command)
}

/// The lines that a page writes to the console, up to the last line of its report. A page unpacks
/// its timeline after the browser has loaded the page. The browser therefore stays open until the
/// report is complete.
fn console(browser: &str, file: &Path) -> Result<Vec<String>> {
    let mut child =
        opening(browser, file, &[])?.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let log = BufReader::new(child.stderr.take().ok_or("the browser has no log")?);
    let (sender, receiver) = mpsc::channel();
    let reader = thread::spawn(move || {
        // When the report is complete, the receiver is dropped and sending fails.
        log.lines()
            .map_while(io::Result::ok)
            .take_while(|line| sender.send(line.clone()).is_ok())
            .count()
    });
    let (begin, mut lines) = (Instant::now(), Vec::new());
    while let Ok(line) = receiver.recv_timeout(PATIENCE.saturating_sub(begin.elapsed())) {
        let Some((_, said)) = line.split_once(":CONSOLE:") else { continue };
        let text = said.split_once("] \"").and_then(|(_, text)| text.rsplit_once("\", source: "));
        lines.push(text.map_or(said, |(text, _)| text).to_owned());
        if lines.last().is_some_and(|line| line.ends_with("all done")) {
            break;
        }
    }
    drop(receiver);
    child.kill()?;
    child.wait()?;
    drop(reader);
    Ok(lines)
}

/// Checks a page and prints the checks that fail. Returns whether all checks passed.
fn check_page(browser: &str, folder: &Path, checked: &CheckedPage) -> Result<bool> {
    let CheckedPage { name, script, narrow } = checked;
    let plain = page(name)?;
    let size = plain.len();
    let checked = plain
        .replacen("<head>", &format!("<head><script>{BEFORE}</script>"), 1)
        .replacen("</body>", &format!("<script>{script}</script></body>"), 1);
    let mut file = folder.join(format!("{name}-checked.html"));
    fs::write(&file, checked)?;
    if let Some(width) = narrow {
        let frame = format!(
            "<!doctype html><iframe src=\"{name}-checked.html\" width=\"{width}\" height=\"800\" \
             style=\"border: 0\"></iframe>"
        );
        file = folder.join(format!("{name}-narrow.html"));
        fs::write(&file, frame)?;
    }
    let lines = console(browser, &file)?;
    let (report, other): (Vec<&String>, Vec<&String>) =
        lines.iter().partition(|line| line.starts_with(LINE));
    let report: Vec<&str> = report.iter().filter_map(|line| line.strip_prefix(LINE)).collect();
    if report.last() != Some(&"all done") {
        println!("== browser: {name}: the script did not finish");
        lines.iter().for_each(|line| println!("{line}"));
        return Ok(false);
    }
    let failures: Vec<&&str> = report.iter().filter(|line| line.starts_with("FAILED")).collect();
    let held = report.iter().filter(|line| line.starts_with("ok ")).count();
    let frames = report.iter().find(|line| line.starts_with("frames")).unwrap_or(&"no frames");
    println!(
        "== browser: {name}: {size} bytes; {held} checks passed, {} failed; {frames}",
        failures.len()
    );
    failures.iter().for_each(|line| println!("{line}"));
    other.iter().for_each(|line| println!("{line}"));
    Ok(failures.is_empty() && other.is_empty() && held > 0)
}

/// Takes one picture of a page.
fn take(browser: &str, folder: &Path, picture: &Picture) -> Result<()> {
    let script = match picture.script {
        "" => "</body>".to_owned(),
        script => format!(
            "<script>(window.timelineReady ?? window.whatIfReady).then(() => {{ {script} }});</script></body>"
        ),
    };
    let file = folder.join(format!("{}.html", picture.name));
    fs::write(&file, page(picture.page)?.replacen("</body>", &script, 1))?;
    let image: PathBuf = folder.join(format!("{}.png", picture.name));
    let shot = format!("--screenshot={}", image.display());
    // On a virtual clock, the browser takes the picture when the page has no more work to do.
    let mut arguments = vec![shot.as_str(), "--virtual-time-budget=20000"];
    arguments.extend(picture.arguments);
    let output = opening(browser, &file, &arguments)?.output()?;
    if !output.status.success() {
        let log = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{browser} {}: {}\n{log}", file.display(), output.status).into());
    }
    if fs::metadata(&image)?.len() > 0 {
        Ok(())
    } else {
        Err(format!("browser: {} is empty", image.display()).into())
    }
}
