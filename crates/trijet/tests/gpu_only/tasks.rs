//! Random programs of tasks on the GPU, compared with their tasks one after another.

#[path = "../task/programs.rs"]
mod programs;

use trijet::{Device, Result, Select};

#[test]
fn any_program_of_tasks_has_the_result_of_its_tasks_on_a_gpu() -> Result<()> {
    let programs = std::env::var("TRIJET_TASKS")
        .map_or(2000, |most| most.parse().expect("a number of programs"));
    let count = u32::try_from(Device::cuda_devices()?.len()).expect("a few GPUs");
    let open = |ordinal| Device::open(Select::Cuda(ordinal));
    let devices: Vec<Device> = (0..count).map(open).collect::<Result<_>>()?;
    for seed in 0..programs {
        // All of them, and one alone.
        let count = if seed % 2 == 0 { devices.len() } else { 1 };
        programs::compare(
            &devices[..count],
            &programs::draw(seed),
            &format!("seed {seed} on a GPU"),
        )?;
    }
    Ok(())
}
