//! Random programs of tasks on the GPU, compared with their tasks one after another.

#[path = "../task/programs.rs"]
mod programs;

use trijet::{Device, Result, Select};

#[test]
fn any_program_of_tasks_has_the_result_of_its_tasks_on_a_gpu() -> Result<()> {
    let programs = std::env::var("TRIJET_TASKS")
        .map_or(2000, |most| most.parse().expect("a number of programs"));
    let device = Device::open(Select::Cuda(0))?;
    for seed in 0..programs {
        programs::compare(&device, &programs::draw(seed), &format!("seed {seed} on a GPU"))?;
    }
    Ok(())
}
