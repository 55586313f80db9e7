use super::{Figures, Judgement};
use crate::lesson::{Expect, Lesson};
use crate::list::{lessons, named};

fn figures(ms: &[f64]) -> Figures {
    Figures {
        ms: ms.to_vec(),
        bound_ms: None,
        wrong: (0, 3),
        is_found: true,
        is_modelled: false,
        seen: vec![None; ms.len()],
    }
}

fn expecting(expect: Expect, forms: &'static [&'static str]) -> Lesson {
    let lesson = named("one-stream").expect("a lesson");
    Lesson { expect, forms, ..lesson }
}

#[test]
fn a_claim_that_is_turned_round_gets_the_opposite_verdict() {
    for lesson in lessons().iter().filter(|lesson| lesson.expect == Expect::Faster) {
        let mut ms = vec![5.0; lesson.forms.len()];
        (ms[0], *ms.last_mut().expect("forms")) = (10.0, 4.0);
        let as_claimed = Lesson { unmodelled: None, ..*lesson }.judge(&figures(&ms));
        ms.reverse();
        let reverse = Lesson { unmodelled: None, ..*lesson }.judge(&figures(&ms));
        assert_eq!(as_claimed.judgement, Judgement::Holds, "{}", lesson.name);
        assert_eq!(reverse.judgement, Judgement::Fails, "{}", lesson.name);
        assert!(as_claimed.sentence.contains("2.50 times as long"), "{}", as_claimed.sentence);
        assert!(reverse.sentence.contains("does not hold"), "{}", reverse.sentence);
    }
}

#[test]
fn times_within_five_percent_show_no_difference() {
    let lesson = expecting(Expect::Faster, &["a", "b"]);
    for ms in [[1.04, 1.0], [1.0, 1.04]] {
        assert_eq!(lesson.judge(&figures(&ms)).judgement, Judgement::NoDifference);
    }
    let at_bound = Figures { bound_ms: Some(0.95), ..figures(&[1.0, 0.99]) };
    assert!(lesson.judge(&at_bound).sentence.contains("nothing to gain"));
}

#[test]
fn forms_of_equal_time_are_equal_within_five_percent_only() {
    let lesson = expecting(Expect::Equal, &["a", "b", "c"]);
    assert_eq!(lesson.judge(&figures(&[1.0, 1.02, 1.04])).judgement, Judgement::Holds);
    let unequal = lesson.judge(&figures(&[1.0, 1.5, 1.04]));
    assert_eq!(unequal.judgement, Judgement::Fails);
    assert!(unequal.sentence.contains("\"b\" takes 1.50 times as long as \"a\""));
}

#[test]
fn an_optimum_lies_between_the_ends() {
    let lesson = expecting(Expect::Between, &["a", "b", "c"]);
    assert_eq!(lesson.judge(&figures(&[2.0, 1.0, 1.5])).judgement, Judgement::Holds);
    assert_eq!(lesson.judge(&figures(&[2.0, 1.5, 1.0])).judgement, Judgement::Fails);
    assert_eq!(lesson.judge(&figures(&[1.0, 1.0, 1.0])).judgement, Judgement::NoDifference);
}

#[test]
fn a_race_is_shown_by_wrong_results_or_by_the_checker() {
    let lesson = expecting(Expect::Race, &["a", "b"]);
    let with = |wrong, is_found| {
        let figures = Figures { wrong: (wrong, 3), is_found, ..figures(&[1.0, 1.2]) };
        lesson.judge(&figures)
    };
    assert_eq!(with(2, true).judgement, Judgement::Holds);
    assert!(with(2, true).sentence.contains("wrong in 2 of 3 runs"));
    assert!(with(2, true).sentence.contains("the order costs 20 %"));
    assert!(with(0, true).sentence.contains("by chance"));
    assert_eq!(with(0, false).judgement, Judgement::Fails);
}

#[test]
fn a_model_that_lacks_the_subject_shows_nothing() {
    let lesson = expecting(Expect::Faster, &["a", "b"]);
    let lesson = Lesson { unmodelled: Some("The model has no clusters"), ..lesson };
    let figures = Figures { is_modelled: true, ..figures(&[2.0, 1.0]) };
    let verdict = lesson.judge(&figures);
    assert_eq!(verdict.judgement, Judgement::NotShown);
    assert!(verdict.sentence.contains("The model has no clusters"));
}

#[test]
fn the_verdict_has_the_figures_of_the_first_and_of_the_last_form() {
    let lesson = expecting(Expect::Faster, &["a", "b", "c"]);
    let seen = ["on 0 of 8", "on 3 of 8", "on 8 of 8"].map(|seen| Some(seen.to_owned()));
    let figures = Figures { seen: seen.to_vec(), ..figures(&[2.0, 1.5, 1.0]) };
    let sentence = lesson.judge(&figures).sentence;
    assert!(
        sentence.ends_with("). Seen with \"a\": on 0 of 8; with \"c\": on 8 of 8."),
        "{sentence}"
    );
    let unmodelled = Lesson { unmodelled: Some("The model has no clusters"), ..lesson };
    let of_model = unmodelled.judge(&Figures { is_modelled: true, ..figures });
    assert!(!of_model.sentence.contains("Seen"), "{}", of_model.sentence);
}
