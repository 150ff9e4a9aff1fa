"""The multiply-accumulates (MACs) of one call, in total, by component and by operator.

    one call under torch's counter, which sees every operator below autograd | formula | for whom is it? | sums

Formulas use the shapes that really arrive, so fused kernels, searches and padding are counted as they run, and nothing
is switched off for it: the call takes the road of the timed one. What multiplies and has no formula is named. The
breakdown by label and module is a sum of the same count.
"""

FLOPS_PER_MAC = 2
