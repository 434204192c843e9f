//! The real tools, found or fetched, on small kernels.

use sixwarp_ptx::toolchain::{
    SourceLine, Tool, ToolchainError, assemble, disassemble, find, resource_usage,
};

const TWO_KERNELS: &str = r#".version 8.0
.target sm_90a
.address_size 64
.file 1 "src/kernel.rs"
.visible .entry plain(.param .u64 out)
{
    .reg .b64 %rd<2>;
    .shared .align 16 .b8 tile[1024];
    .loc 1 33 5
    ld.param.u64 %rd0, [out];
    bar.sync 3;
    st.global.b64 [%rd0], 5;
    ret;
}
.visible .entry with_stack(.param .u64 out)
{
    .reg .b64 %rd<3>;
    .reg .b32 %r<2>;
    .local .align 4 .b8 stack[64];
    ld.param.u64 %rd0, [out];
    mov.u32 %r0, %tid.x;
    cvt.u64.u32 %rd1, %r0;
    mov.b64 %rd2, stack;
    add.u64 %rd2, %rd2, %rd1;
    st.local.b32 [%rd2], 7;
    ld.local.b32 %r1, [stack+4];
    st.global.b32 [%rd0], %r1;
    ret;
}
"#;

#[test]
fn assembling_reports_the_resources_of_each_kernel() {
    let assembled = assemble(TWO_KERNELS, "sm_90a").unwrap();
    assert!(assembled.cubin.starts_with(b"\x7fELF"));
    assert_eq!(assembled.warnings, Vec::<String>::new());
    assert_eq!(assembled.report.len(), 2);
    let plain = assembled.kernel("plain").unwrap();
    assert_eq!((plain.smem, plain.stack, plain.barriers), (1024, 0, 4));
    assert!(plain.registers > 0);
    assert_eq!((plain.spill_stores, plain.spill_loads), (0, 0));
    assert_eq!(assembled.kernel("with_stack").unwrap().stack, 64);
}

#[test]
fn an_error_names_the_ptx_line_and_the_rust_line() {
    let broken = TWO_KERNELS.replace("bar.sync 3", "add.f32 %rd0, %rd0, 1");
    let error = assemble(&broken, "sm_90a").unwrap_err();
    let ToolchainError::Rejected { arch, errors } = &error else { panic!("{error}") };
    assert_eq!(arch, "sm_90a");
    assert_eq!(errors[0].line, Some(11));
    assert_eq!(errors[0].source, Some(SourceLine { path: "src/kernel.rs".into(), line: 33 }));
    assert!(error.to_string().contains("(emitted at src/kernel.rs:33)"), "{error}");
}

#[test]
fn a_module_for_another_target_is_refused_with_the_tools_own_words() {
    let error = assemble(TWO_KERNELS, "sm_100a").unwrap_err();
    assert!(error.to_string().contains("'sm_90a' cannot be compiled"), "{error}");
}

#[test]
fn using_an_accumulator_before_its_wait_is_a_warning() {
    let mma = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 \
               {%f0, %f1, %f2, %f3}, %rd0, %rd0, 1, 1, 1, 0, 0;\n\
               wgmma.commit_group.sync.aligned;\n";
    let body = format!(
        ".reg .f32 %f<4>;\nwgmma.fence.sync.aligned;\n{mma}add.f32 %f0, %f0, %f1;\n\
         wgmma.fence.sync.aligned;\n{mma}wgmma.wait_group.sync.aligned 0;\nst.global.f32 [%rd0], %f0"
    );
    let assembled = assemble(&TWO_KERNELS.replace("bar.sync 3", &body), "sm_90a").unwrap();
    assert!(assembled.warnings.iter().any(|w| w.contains("(C75")), "{:?}", assembled.warnings);
}

#[test]
fn a_cubin_disassembles_to_sass() {
    let assembled = assemble(TWO_KERNELS, "sm_90a").unwrap();
    let sass = disassemble(&assembled.cubin).unwrap();
    assert!(sass.contains("BAR.SYNC") && sass.contains("EXIT"), "{sass}");
    let usage = resource_usage(&assembled.cubin).unwrap();
    assert!(usage.contains("Function plain"), "{usage}");
}

#[test]
fn threads_that_look_at_once_get_the_same_tool() {
    let paths: Vec<_> = std::thread::scope(|scope| {
        let looks: Vec<_> = (0..4).map(|_| scope.spawn(|| find(Tool::Ptxas).unwrap())).collect();
        looks.into_iter().map(|look| look.join().unwrap()).collect()
    });
    assert!(paths.iter().all(|path| *path == paths[0] && path.is_file()));
}
