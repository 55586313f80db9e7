//! `trijet overlap`: four schedules with one result, and the damage of a missing wait.

use crate::bad_places::with_file_limit;
use crate::workdir::{Images, Ran, Workdir, bytes_of, decode, noise, numbers_of};
use serde_json::Value;
use trijet::trace::Engine;
use trijet::trace::file::Reader;

const SMALL: [&str; 6] = ["overlap", "--device", "host", "--radius", "1", "--repeats=1"];
const SCHEDULES: [&str; 4] = ["one stream", "slot streams", "role streams", "tuned"];

#[test]
fn four_schedules_give_one_result_and_a_drawing() {
    let workdir = Workdir::new();
    let call = ["overlap", "--device", "host", "--size", "2MiB", "--repeats", "1"];
    let printed = workdir.trijet(&[&call[..], &["--report", "full"]].concat());
    let steps: Vec<String> = printed.progress().into_iter().map(str::to_owned).collect();
    let printed = printed.done();
    let row = |name: &str| printed.lines().find(|line| line.starts_with(name)).map(str::to_owned);
    let hash = printed.split("all results are equal, with the hash ").nth(1);
    let hash = hash.unwrap_or_else(|| panic!("no hash in {printed}")).lines().next().unwrap();
    assert!(hash.len() == 16 && u64::from_str_radix(hash, 16).is_ok(), "{printed}");
    for name in SCHEDULES {
        let row = row(name).unwrap_or_else(|| panic!("no {name} in {printed}"));
        assert!(row.len() < 80, "{row}");
    }
    for engine in ["   upload 0", "  compute .", " download ."] {
        let stair = row(engine).unwrap_or_else(|| panic!("no `{engine}` in {printed}"));
        assert!(stair.contains("012") || stair.contains("00011"), "{stair}");
    }
    assert!(printed.contains("times from a model of an H200"), "{printed}");
    let limits = row("limits: ").unwrap_or_else(|| panic!("no limits in {printed}"));
    assert!(limits.contains(", with the cost of each copy ") && limits.contains(" of this run's "));
    // One run of each schedule gives its bytes, its time and its trace, and one more run gives the
    // time of the kernels alone.
    assert!(printed.contains("processor computed the stack 5 times, in "), "{printed}");
    assert_eq!(steps.len(), 6, "{steps:?}");
    assert!(
        steps[0].starts_with("[1/6] filling memory") && steps[5].ends_with("tuned"),
        "{steps:?}"
    );
    let first = "generated micrographs (2 MiB in whole images of 8 MiB): median of radius 3";
    assert!(printed.starts_with(first), "{printed}");
}

/// The drawing once came after fourteen lines of figures, and a loss had neither a reason nor a
/// fix.
#[test]
fn the_short_report_draws_first_and_says_what_limits_and_why_time_was_lost() {
    let workdir = Workdir::new();
    let stack = noise(64 * 64 * 8 * 2, 6);
    workdir.npy("in.npy", "<u2", &[8, 64, 64], &stack);
    let printed = workdir.trijet(&[&SMALL[..], &["in.npy"]].concat()).done();
    let at = |words: &str| printed.find(words).unwrap_or_else(|| panic!("no `{words}`: {printed}"));
    assert!(at("  upload 0") < at("one stream") && at("tuned  ") < at("the tuned schedule on "));
    assert!(
        at("limit") < at("lost ")
            && at(" %) to fill and drain: with ") < at("; use a larger input"),
        "{printed}"
    );
    assert!(!printed.contains("critical path") && printed.contains("`--report full`"), "{printed}");
    let full = workdir.trijet(&[&SMALL[..], &["in.npy", "--report", "full"]].concat()).done();
    assert!(full.contains("critical path: ") && full.contains("; use a larger input"), "{full}");
}

#[test]
fn no_schedule_beats_the_bound_where_the_kernels_limit() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "<u2", &[2, 256, 256], &noise(2 * 256 * 256 * 2, 8));
    let args = ["overlap", "in.npy", "--device", "host", "--radius", "7", "--json"];
    let value = workdir.trijet(&args).json();
    for schedule in value["schedules"].as_array().unwrap() {
        assert!(schedule["efficiency"].as_f64().unwrap() <= 1.0, "{schedule:#}");
    }
    assert_eq!(value["schedules"][3]["limit"], "compute", "{value:#}");
}

/// The first output of a run of minutes once came at its end.
#[test]
fn the_job_is_printed_before_it_is_computed() {
    let workdir = Workdir::new();
    // The timeline is too large, but this is known only after the computation.
    let args = [&SMALL[..], &["--size", "2MiB", "--trace", "out.html"]].concat();
    let ran = with_file_limit(&workdir, &args);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.out.lines().count() == 1 && ran.out.starts_with("generated"), "{}", ran.out);
    assert_eq!(ran.progress().len(), 6, "{}", ran.err);
}

#[test]
fn the_comparison_as_json_has_four_schedules_of_one_result() {
    let workdir = Workdir::new();
    let value = workdir.trijet(&[&SMALL[..], &["--size", "2MiB", "--json"]].concat()).json();
    let schedules = value["schedules"].as_array().unwrap();
    let names: Vec<_> = schedules.iter().map(|s| s["schedule"].as_str().unwrap()).collect();
    assert_eq!(names, SCHEDULES);
    let hashes: Vec<_> = value["hashes"].as_array().unwrap().iter().map(Value::as_str).collect();
    assert!(hashes.len() == 4 && hashes.iter().all(|h| h.is_some() && *h == hashes[0]));
    for schedule in schedules {
        assert!(schedule["clock"].as_str().unwrap().contains("model"), "{schedule:#}");
        assert!(schedule["wall_ns"].is_null(), "a model has no wall clock: {schedule:#}");
        assert!(schedule["elapsed_ns"].as_u64() >= schedule["bound_ns"].as_u64());
        assert!(schedule["efficiency"].as_f64().unwrap() <= 1.0);
        let limits = &schedule["limits"];
        let ns = |name: &str| limits[name].as_u64().unwrap_or_else(|| panic!("{schedule:#}"));
        assert_eq!(Some(ns("bound_ns")), schedule["bound_ns"].as_u64());
        assert!(ns("bound_ns") < ns("with_copies_ns") && ns("with_copies_ns") < ns("with_ends_ns"));
        assert!(limits["of_copies_only"] == false && limits["reached"].as_f64().unwrap() <= 1.0);
        assert_eq!(schedule["summary"]["finite_ns"], limits["with_ends_ns"]);
        let summary = &schedule["summary"];
        assert_eq!(summary["hazards"], 0, "{summary:#}");
        for engine in summary["engines"].as_array().unwrap() {
            let idle = engine["idle"].as_array().unwrap().iter();
            let idle = idle.map(|part| part["time_ns"].as_u64().unwrap());
            let all = idle.sum::<u64>() + engine["busy_ns"].as_u64().unwrap();
            assert_eq!(Some(all), summary["elapsed_ns"].as_u64(), "{summary:#}");
        }
        let path = summary["critical_path"].as_array().unwrap().iter();
        let path: u64 = path.map(|part| part["time_ns"].as_u64().unwrap()).sum();
        assert_eq!(Some(path), summary["elapsed_ns"].as_u64(), "{summary:#}");
    }
    for field in ["job", "link", "scratch_reserved_bytes", "scratch_used_high_bytes"] {
        assert!(value.get(field).is_some(), "{field} is missing");
    }
}

#[test]
fn a_stack_from_a_file_is_compared_too() {
    let workdir = Workdir::new();
    workdir.npy("narrow.npy", "|u1", &[3, 40, 50], &noise(6000, 1));
    workdir.npy("wide.npy", "<u2", &[40, 50], &noise(4000, 2));
    for (name, job) in
        [("narrow.npy", "3 images of 50 x 40 (8 bit)"), ("wide.npy", "1 image of 50 x 40 (16 bit)")]
    {
        let printed = workdir.trijet(&[&SMALL[..], &[name]].concat()).done();
        assert!(printed.starts_with(name) && printed.contains(job), "{printed}");
        assert!(SCHEDULES.iter().all(|name| printed.contains(name)), "{printed}");
    }
    assert_eq!(workdir.names(), ["narrow.npy", "wide.npy"]);
}

#[test]
fn an_input_that_is_not_a_stack_of_images_is_refused() {
    let workdir = Workdir::new();
    workdir.npy("list.npy", "|u1", &[12], &[0; 12]);
    workdir.npy("float.npy", "<f4", &[2, 2], &[0; 16]);
    workdir.npy("empty.npy", "|u1", &[0, 4, 4], &[]);
    workdir.npy("image.npy", "|u1", &[4, 4], &[0; 16]);
    for (name, words) in [
        ("list.npy", "u8 [12] is not an image"),
        ("float.npy", "u8 or u16"),
        ("empty.npy", "no pixels"),
        ("missing.npy", "no such file"),
    ] {
        workdir.trijet(&[&SMALL[..], &[name]].concat()).refused(1, &[name, words]);
    }
    for radius in ["0", "8"] {
        let args = ["overlap", "--device", "host", "image.npy", "--radius", radius];
        workdir.trijet(&args).refused(2, &[&format!("radius {radius}"), "1 to 7"]);
    }
    let both = [&SMALL[..], &["image.npy", "--size", "2MiB"]].concat();
    workdir.trijet(&both).refused(2, &["--size", "cannot be used"]);
}

/// Each of the first waits is left out once. In some of these runs the order of the model is right
/// without the wait. The command once called that chance.
#[test]
fn leaving_out_a_wait_damages_the_result_or_the_order_of_the_model_is_right_without_it() {
    let workdir = Workdir::new();
    let mut damaged = 0;
    for number in 1..=6 {
        let (number, picture) = (number.to_string(), format!("{number}.png"));
        let more = ["--size", "2MiB", "--drop-wait", &number, "--picture", &picture];
        let printed = workdir.trijet(&[&SMALL[..], &more].concat()).done();
        assert!(printed.contains(&format!("wait {number} of ")), "{printed}");
        assert!(printed.contains("does not wait for"), "{printed}");
        // The text is about stages and chunks, and not about lines and numbers of the command.
        for word in ["lane ", ".rs:", "event 8", " pos ", "(number "] {
            assert!(!printed.contains(word), "`{word}` in {printed}");
        }
        assert!(printed.contains(" does not wait for the "), "{printed}");
        // The streams have the names that they have in a ledger of the run.
        let race = printed.lines().find(|line| line.starts_with("error[RACE/"));
        let race = race.unwrap_or_else(|| panic!("no race in {printed}"));
        let on = |name: &str| race.contains(&format!(" on `{name}`"));
        let named = ["upload", "compute", "download"].into_iter().filter(|name| on(name)).count();
        assert!(named == 2 && !printed.contains(" stream 0"), "{printed}");
        if workdir.exists(&picture) {
            assert!(
                printed.contains("pixels are wrong") && printed.contains(&picture),
                "{printed}"
            );
            assert_eq!(decode(&workdir.path(&picture)).len(), 512 * 512);
            assert!(printed.contains("error[RACE/") && printed.contains("  fix: "), "{printed}");
            damaged += 1;
        } else {
            let reason = "on the model the order is the same in each run";
            assert!(printed.contains(reason) && printed.contains("no picture"), "{printed}");
            assert!(printed.contains("--drop-wait 1 and --drop-wait 2 do damage"), "{printed}");
        }
    }
    assert!(workdir.exists("1.png") && workdir.exists("2.png"), "{damaged} pictures");
}

/// A model computes the times, so they do not vary.
#[test]
fn the_table_explains_a_faster_row_with_a_lower_rate_and_one_that_is_faster_than_tuned() {
    let workdir = Workdir::new();
    let call = ["overlap", "--device", "host", "--size", "8MiB"];
    let printed = workdir.trijet(&call).done();
    assert!(printed.contains("a chunk also reads the rows around it (halo)"), "{printed}");
    assert!(printed.contains(" read twice: chunk inputs overlap) and 8 MiB out"), "{printed}");
    assert!(printed.contains("tuned, all 7 chunks, one symbol each"), "{printed}");
    let chosen = ["--chunk", "1MiB", "--depth", "4", "--report", "full"];
    let printed = workdir.trijet(&[&call[..], &chosen].concat()).done();
    assert!(printed.contains(" less than tuned, which chooses"), "{printed}");
}

#[test]
fn damage_as_json_has_the_number_of_wrong_pixels() {
    let workdir = Workdir::new();
    let stack = numbers_of(&noise(64 * 64 * 2 * 8, 3));
    workdir.npy("in.npy", "<u2", &[8, 64, 64], &bytes_of(&stack));
    let more = ["in.npy", "--drop-wait", "1", "--chunk", "8KiB", "--json"];
    let value = workdir.trijet(&[&SMALL[..], &more].concat()).json();
    assert_eq!(value["wait"].as_u64(), Some(1));
    assert!(value["waits"].as_u64().unwrap() > 1);
    let wrong = value["pixels_wrong"].as_u64().unwrap();
    assert!(wrong > 0, "a median that does not wait for its upload: {value:#}");
    assert_eq!(value["picture"].as_str(), Some("damaged.png"));
    assert!(value["findings"][0]["class"].as_str().unwrap().starts_with("RACE/"), "{value:#}");
    let streams = ["first", "second"].map(|party| &value["findings"][0][party]["stream_name"]);
    assert_eq!(streams, ["upload", "compute"], "{value:#}");
    assert_eq!(decode(&workdir.path("damaged.png")).len(), 64 * 512, "as wide as the stack");
}

#[test]
fn a_wait_that_does_not_exist_is_an_error_with_the_number_of_waits() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "|u1", &[4, 16, 16], &noise(1024, 4));
    let far = [&SMALL[..], &["in.npy", "--drop-wait", "100000"]].concat();
    workdir.trijet(&far).refused(1, &["no wait 100000", "waits"]);
    workdir.trijet(&[&SMALL[..], &["--drop-wait", "0"]].concat()).refused(2, &["--drop-wait"]);
    assert_eq!(workdir.names(), ["in.npy"]);
}

/// The picture once overwrote any file.
#[test]
fn the_picture_of_the_damage_does_not_change_the_input() {
    let workdir = Workdir::new();
    let stack = noise(64 * 64 * 8, 5);
    workdir.npy("in.npy", "|u1", &[8, 64, 64], &stack);
    workdir.images("in", [64, 64], &Images::U8(&stack));
    std::os::unix::fs::symlink("in.npy", workdir.path("soft.png")).unwrap();
    let before = (workdir.read("in.npy"), workdir.read("in/0.png"));
    for (input, picture) in
        [("in.npy", "in.npy"), ("in.npy", "soft.png"), ("in", "in/0.png"), ("in", "in/new.png")]
    {
        let more = [input, "--drop-wait", "1", "--chunk", "4KiB", "--picture", picture];
        workdir.trijet(&[&SMALL[..], &more].concat()).refused(1, &[picture, "the input", input]);
    }
    let inside = ["overlap", ".", "--device", "host", "--drop-wait", "1"];
    let ran = workdir.command(&inside).current_dir(workdir.path("in")).output().unwrap();
    Ran::from(ran).refused(1, &["damaged.png", "the input"]);
    assert!(!workdir.exists("in/damaged.png"));
    assert!(before == (workdir.read("in.npy"), workdir.read("in/0.png")), "an input was damaged");
    assert!(!workdir.exists("in/new.png"));
}

/// The text between `from` and `to`.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let (_, rest) = text.split_once(from).unwrap_or_else(|| panic!("no `{from}`"));
    rest.split_once(to).unwrap_or_else(|| panic!("no `{to}`")).0
}

#[test]
fn a_page_has_the_figures_of_the_terminal() {
    let workdir = Workdir::new();
    let more = ["--size", "2MiB", "--report", "full", "--trace", "out.html"];
    let printed = workdir.trijet(&[&SMALL[..], &more].concat()).done();
    let page = String::from_utf8(workdir.read("out.html")).unwrap();
    // A page has the sign for microseconds, and a terminal has `us`.
    let page = page.replace(" \u{b5}s", " us");
    let verdict = between(&page, "<p id=\"verdict\">", "</p>");
    assert!(printed.lines().any(|line| line == verdict), "`{verdict}` is not in {printed}");
    assert!(
        verdict.contains(" modelled, bound ") && verdict.contains("; 0 hazards, "),
        "{verdict}"
    );
    // The figures below the timeline, which are a list on the page.
    let figures = between(&page, "<ul class=\"figures\">", "</ul>");
    let figures: Vec<_> =
        figures.split("<li>").skip(1).map(|li| li.trim_end_matches("</li>")).collect();
    assert!(figures.len() >= 3, "{figures:?}");
    for figure in figures {
        assert!(printed.lines().any(|line| line == figure), "`{figure}` is not in {printed}");
    }
    assert!(printed.ends_with("timeline: out.html\n"), "{printed}");
    // The limiting engine has a bar and a mark, and the three limits are there.
    assert!(printed.contains("link, both ways") && printed.contains("<- limits"), "{printed}");
    assert!(page.contains("<h3>link, both ways <span class=\"limit\">limits the run</span>"));
    let limits = printed.lines().find_map(|line| line.strip_prefix("limits: ")).unwrap();
    let limits = limits.replace('\'', "&#39;");
    assert!(page.contains(&limits), "`{limits}` is not on the page");
    assert_eq!(workdir.names(), ["out.html"]);
}

#[test]
fn equal_runs_on_the_host_device_write_equal_timelines() {
    for name in ["out.html", "out.pftrace", "out.json"] {
        let run = || {
            let workdir = Workdir::new();
            workdir.trijet(&[&SMALL[..], &["--size", "2MiB", "--trace", name]].concat()).done();
            assert_eq!(workdir.names(), [name]);
            workdir.read(name)
        };
        let first = run();
        assert!(first.len() > 1000, "{name} has {} bytes", first.len());
        assert!(first == run(), "{name} differs");
    }
}

#[test]
fn a_timeline_in_json_is_valid_json() {
    let workdir = Workdir::new();
    let args = [&SMALL[..], &["--size", "2MiB", "--json", "--trace", "OUT.JSON"]].concat();
    let value = workdir.trijet(&args).json();
    let verdict = value["verdict"].as_str().unwrap();
    let summary = &value["schedules"][3]["summary"];
    assert_eq!(summary["verdict"], verdict);
    assert!(verdict.contains(" modelled, bound "), "{verdict}");
    let trace: Value = serde_json::from_slice(&workdir.read("OUT.JSON")).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    for category in ["kernel", "gpu_memcpy", "cuda_runtime", "ac2g"] {
        assert!(events.iter().any(|event| event["cat"] == category), "no {category}");
    }
}

/// The two options were once refused together.
#[test]
fn the_timeline_of_a_run_without_a_wait_shows_its_hazard() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "<u2", &[8, 64, 64], &noise(64 * 64 * 2 * 8, 3));
    let more = ["in.npy", "--drop-wait", "1", "--chunk", "8KiB", "--overwrite"];
    let job = [&SMALL[..], &more].concat();
    let printed = workdir.trijet(&[&job[..], &["--trace", "run.ledger"]].concat()).done();
    assert!(printed.contains("timeline: run.ledger"), "{printed}");
    let ran = workdir.trijet(&["check", "run.ledger", "--json"]);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(ran.code, Some(1), "{report:#}");
    let found = report["findings"].as_array().unwrap();
    assert!(found[0]["class"].as_str().unwrap().starts_with("RACE/"), "{report:#}");
    for (name, more) in [("a.html", &[][..]), ("b.html", &["--check"])] {
        let ran = workdir.trijet(&[&job[..], &["--trace", name], more].concat());
        assert_eq!(ran.code, Some(i32::from(!more.is_empty())), "{}", ran.err);
        let page = String::from_utf8(workdir.read(name)).unwrap();
        assert!(page.contains("without wait 1") && page.contains("#hazard=0"), "{name}");
        assert!(page.contains("error[RACE/"), "{name}");
    }
}

#[test]
fn a_timeline_that_cannot_be_written_is_refused_before_the_run() {
    let workdir = Workdir::new();
    workdir.file("taken.html", b"mine");
    for (name, words) in
        [("taken.html", "already exists"), ("nowhere/out.html", "folder does not exist")]
    {
        workdir.trijet(&[&SMALL[..], &["--trace", name]].concat()).refused(1, &[name, words]);
    }
    for name in ["out.txt", "out"] {
        let ran = workdir.trijet(&[&SMALL[..], &["--trace", name]].concat());
        ran.refused(2, &[name, ".html, .pftrace, .json or .ledger"]);
    }
    assert_eq!(
        (workdir.names(), workdir.read("taken.html")),
        (vec!["taken.html".into()], b"mine".into())
    );
}

/// With a radius of 7 the kernels of two streams queue for their engine. Pairs of events include
/// the time in the queue; the times of the engine do not.
#[test]
fn the_source_of_times_can_be_chosen() {
    let workdir = Workdir::new();
    // Many chunks of few pixels, whose kernels are longer than their copies: the kernels queue.
    workdir.npy("in.npy", "<u2", &[16, 128, 128], &noise(16 * 128 * 128 * 2, 7));
    let job = ["overlap", "in.npy", "--device", "host", "--radius", "7", "--repeats=1"];
    let kernels = |times: &str| -> f64 {
        let name = format!("{times}.ledger");
        let value =
            workdir.trijet(&[&job[..], &["--json", "--trace", &name, "--times", times]].concat());
        let value = value.json();
        assert!(value["schedules"][3]["clock"].as_str().unwrap().contains("model"), "{value:#}");
        assert_eq!(value["schedules"][3]["clock_warnings"].as_array().unwrap().len(), 0);
        let ledger = workdir.read(&name);
        let ops = Reader::new(&ledger[..]).unwrap().map(Result::unwrap);
        let kernels = ops.filter(|op| op.engine == Engine::Compute).filter_map(|op| op.times);
        kernels.map(|times| times.end.0 - times.begin.0).sum::<u64>() as f64
    };
    let (events, engines, auto) = (kernels("events"), kernels("engines"), kernels("auto"));
    assert!(engines > 0.0 && events > 1.05 * engines, "{events} {engines}");
    assert!((auto - engines).abs() < 1e-6 * engines, "{auto} {engines}");
    workdir.trijet(&[&job[..], &["--times", "clock"]].concat()).refused(2, &["--times", "clock"]);
}

/// With more than 8 slots the command starts itself again to ask for hardware queues, with the same
/// arguments.
#[test]
fn a_run_with_more_slots_than_hardware_queues_keeps_its_arguments() {
    let more = ["--size", "16MiB", "--depth", "9", "--json"];
    let printed = Workdir::new().trijet(&[&SMALL[..], &more].concat()).done();
    assert!(printed.contains("\"slots\": 9"), "{printed}");
}
