"""Names of kernels, as a reader tells them apart."""

from __future__ import annotations

import pytest

from profiler.tensorboard_plugin.trace.names import LONGEST, is_communication, short_name, uses_tensor_cores

LAMBDA = "{lambda()#1}::operator()() const::{lambda()#7}::operator()() const::{lambda(float)#1}"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("volta_sgemm_64x64_nt", "volta_sgemm_64x64_nt"),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, "
            "at::detail::Array<char*, 3> >(int, at::native::AddFunctor<float>, at::detail::Array<char*, 3>)",
            "vectorized_elementwise_kernel<4, AddFunctor<float>>",
        ),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::launch_clamp_scalar("
            f"at::TensorIteratorBase&, c10::Scalar)::{LAMBDA}, at::detail::Array<char*, 2> >(int)",
            "vectorized_elementwise_kernel<4, launch_clamp_scalar>",
        ),
        (
            "void cudnn::detail::dgrad_engine<float, 512, 6, false>(int, float const*)",
            "dgrad_engine<float, 512, 6, false>",
        ),
        ("std::enable_if<!(false), void>::type internal::gemvx::kernel<int, float>(int)", "kernel<int, float>"),
        (
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long)",
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
        ),
        (
            "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEEEEviT0_T1_",
            "vectorized_elementwise_kernel",
        ),
        ("_Z6kernelPf", "kernel"),
        ("triton_poi_fused_add_relu_0", "triton_poi_fused_add_relu_0"),
        ("_Z", "_Z"),
        ("()", "()"),
        ("", ""),
    ],
)
def test_a_kernel_is_named_by_what_tells_it_from_others(name: str, short: str) -> None:
    assert short_name(name) == short


@pytest.mark.parametrize(
    "name", ["x" * 2000, "<" * 1000, "(" * 1000, "a<b, c" * 200, "_Z" + "9" * 1000 + "x", "a::" * 300]
)
def test_any_name_becomes_a_short_one(name: str) -> None:
    assert len(short_name(name)) <= LONGEST


@pytest.mark.parametrize(
    ("name", "used"),
    [
        ("volta_sgemm_64x64_nt", False),
        ("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", True),
        ("ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn", True),
        (
            "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16_tensor16x8x8",
            True,
        ),
        ("void flash_fwd_kernel<Flash_fwd_kernel_traits<64> >(Flash_fwd_params)", True),
        ("Cijk_Alik_Bljk_SB_MT64x16x32_MI16x16x1_SN", True),  # of AMD
        ("ampere_sgemm_32x32_sliced1x4_tn", False),
    ],
)
def test_tensor_cores_are_known_by_name(name: str, used: bool) -> None:
    assert uses_tensor_cores(name) == used


def test_communication_is_known_by_name() -> None:
    assert is_communication("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)")
    assert is_communication("void ncclDevKernel_Broadcast(int)")
    assert not is_communication("void gemm<float>(int)")
