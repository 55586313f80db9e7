//! Random programs of tasks on the GPU. Their results are compared with the results of the same
//! tasks, run one after another.

#[path = "../task/programs.rs"]
mod programs;

use super::all_gpus;
use trijet::kernels::{Code, KernelSpec, Read, Shape, Write};
use trijet::task::TaskOptions;
use trijet::{Device, Kernel, Result, Select};

const CODE: &str = r#"extern "C" __global__ void wrong(float* x, unsigned long long nx, float* y, unsigned long long ny) {
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i < ny) y[i] = x[i];
    if (i == 4) x[i] = 5.0f;
}"#;

/// A kernel that is declared to read its first span, and writes an element of it.
static WRONG: Kernel<(Read<f32>, Write<f32>)> = {
    let shape = Shape::Elements { per_thread: 1 };
    // SAFETY: this is wrong by one element, which nothing else uses meanwhile.
    unsafe { Kernel::declare(KernelSpec::new("wrong", Code::source(CODE), shape)) }
};

#[test]
fn a_kernel_that_writes_what_its_task_declared_to_read_is_found_on_a_gpu() -> Result<()> {
    let tasks = Device::open(Select::Cuda(0))?.tasks_with(TaskOptions::new().check_reads());
    let (x, y) = (tasks.alloc::<f32>(100)?, tasks.alloc::<f32>(100)?);
    tasks.task(x.write()).run(|s, mut x| s.fill(&mut x, 1.0))?;
    tasks.task((x.read(), y.write())).run(|s, (x, y)| s.launch(&WRONG, (x, y)))?;
    let error = tasks.finish().expect_err("it wrote").to_string();
    assert!(error.contains("wrote bytes 18 to 20 of data 0"), "{error}");
    Ok(())
}

#[test]
fn any_program_of_tasks_has_the_result_of_its_tasks_on_a_gpu() -> Result<()> {
    let programs = std::env::var("TRIJET_TASKS")
        .map_or(2000, |most| most.parse().expect("a number of programs"));
    let devices = all_gpus().open_all()?;
    for seed in 0..programs {
        // The program uses all devices, or one device.
        let count = if seed % 2 == 0 { devices.len() } else { 1 };
        programs::compare(
            &devices[..count],
            &programs::draw(seed),
            &format!("seed {seed} on a GPU"),
        )?;
    }
    Ok(())
}
