//! A run-time compiler that compiles nothing: its output is the source itself. A test therefore
//! writes the PTX that it wants into a comment of the source. A line with `#error` is an error in
//! that line. In the text of the error, names from earlier lines `#define NAME WORDS` are replaced.
//! `#line` numbers the lines, and `#include` is an error about a missing file. A source with the
//! words `no log` fails without a log.

use super::objects::{handle, lock};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int};
use std::sync::Mutex;

const COMPILATION: c_int = 6;
const INVALID_PROGRAM: c_int = 4;
const INTERNAL_ERROR: c_int = 11;

struct Program {
    name: String,
    source: String,
    log: String,
}

/// The programs that are not destroyed yet. The keys are the handles of the programs.
static PROGRAMS: Mutex<BTreeMap<usize, Program>> = Mutex::new(BTreeMap::new());

/// The number of programs that are not destroyed yet. The real library does not have this function.
#[unsafe(no_mangle)]
pub extern "C" fn emptyPrograms() -> usize {
    lock(&PROGRAMS).len()
}

/// Creates a program.
///
/// # Safety
/// `program` points to a writable handle; `source` and `name` are terminated texts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcCreateProgram(
    program: *mut usize,
    source: *const c_char,
    name: *const c_char,
) -> c_int {
    // SAFETY: `source` is terminated by the contract of this function.
    let source = unsafe { CStr::from_ptr(source) }.to_string_lossy().into_owned();
    // SAFETY: `name` is terminated by the contract of this function.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    let new = handle();
    lock(&PROGRAMS).insert(new, Program { name, source, log: String::new() });
    // SAFETY: `program` is writable by the contract of this function.
    unsafe { program.write(new) };
    0
}

/// Compiles a program.
#[unsafe(no_mangle)]
pub extern "C" fn nvrtcCompileProgram(program: usize) -> c_int {
    let mut programs = lock(&PROGRAMS);
    let Some(program) = programs.get_mut(&program) else { return INVALID_PROGRAM };
    let errors = errors(program);
    program.log = errors.join("\n");
    if errors.is_empty() && !program.source.contains("no log") { 0 } else { COMPILATION }
}

/// The errors of a source.
fn errors(program: &Program) -> Vec<String> {
    let (mut number, mut macros, mut errors) = (1_u32, Vec::new(), Vec::new());
    for line in program.source.lines() {
        if let Some(next) = line.strip_prefix("#line ") {
            number = next.trim().parse().unwrap_or(number);
            continue;
        }
        if let Some((name, words)) =
            line.strip_prefix("#define ").and_then(|rest| rest.split_once(' '))
        {
            macros.push((name, words));
        }
        if let Some((_, words)) = line.split_once("#error") {
            let words = macros
                .iter()
                .fold(words.trim().to_owned(), |words, (name, to)| words.replace(name, to));
            errors.push(format!("{}({number}): error: {words}", program.name));
        }
        if let Some(file) = line.strip_prefix("#include ") {
            let file = file.trim_matches(['<', '>', '"']);
            errors.push(format!(
                "{}({number}): catastrophic error: could not open source file \"{file}\" (no directories in search list)",
                program.name
            ));
        }
        number += 1;
    }
    errors
}

/// Writes the length of a text of a program, including its terminator.
///
/// # Safety
/// `bytes` points to a writable number.
unsafe fn length(program: usize, bytes: *mut usize, text: fn(&Program) -> &str) -> c_int {
    let programs = lock(&PROGRAMS);
    let Some(program) = programs.get(&program) else { return INVALID_PROGRAM };
    if program.source.contains("no log") {
        return INTERNAL_ERROR;
    }
    // SAFETY: `bytes` is writable by the contract of this function.
    unsafe { bytes.write(text(program).len() + 1) };
    0
}

/// Writes a text of a program, including its terminator.
///
/// # Safety
/// `out` points to as many writable bytes as `length` reports.
unsafe fn write(program: usize, out: *mut u8, text: fn(&Program) -> &str) -> c_int {
    let programs = lock(&PROGRAMS);
    let Some(program) = programs.get(&program) else { return INVALID_PROGRAM };
    let text = text(program);
    // SAFETY: `out` has room for the text by the contract of this function.
    unsafe { out.copy_from_nonoverlapping(text.as_ptr(), text.len()) };
    // SAFETY: the terminator is within the reported length.
    unsafe { out.add(text.len()).write(0) };
    0
}

/// Writes the length of the log.
///
/// # Safety
/// `bytes` points to a writable number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetProgramLogSize(program: usize, bytes: *mut usize) -> c_int {
    // SAFETY: `bytes` is writable, because the contract of `length` is the contract of this
    // function.
    unsafe { length(program, bytes, |program| &program.log) }
}

/// Writes the log.
///
/// # Safety
/// `out` points to as many writable bytes as `nvrtcGetProgramLogSize` reports.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetProgramLog(program: usize, out: *mut u8) -> c_int {
    // SAFETY: `out` has the room that the contract of this function promises.
    unsafe { write(program, out, |program| &program.log) }
}

/// Writes the length of the PTX.
///
/// # Safety
/// `bytes` points to a writable number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetPTXSize(program: usize, bytes: *mut usize) -> c_int {
    // SAFETY: `bytes` is writable by the contract of this function.
    unsafe { length(program, bytes, |program| &program.source) }
}

/// Writes the PTX.
///
/// # Safety
/// `out` points to as many writable bytes as `nvrtcGetPTXSize` reports.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetPTX(program: usize, out: *mut u8) -> c_int {
    // SAFETY: `out` has the room that the contract of this function promises.
    unsafe { write(program, out, |program| &program.source) }
}

/// Destroys a program.
///
/// # Safety
/// `program` points to a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcDestroyProgram(program: *mut usize) -> c_int {
    // SAFETY: `program` is readable by the contract of this function.
    let raw = unsafe { program.read() };
    match lock(&PROGRAMS).remove(&raw) {
        Some(_) => 0,
        None => INVALID_PROGRAM,
    }
}
