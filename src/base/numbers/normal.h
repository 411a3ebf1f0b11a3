/* Normal numbers from words, by inversion: the constants of et_random_normal and of the kernel that
 * draws many at once. Both give the same bits on every machine: they use only operations that IEEE
 * 754 rounds in one way, in the same order, never fused.
 *
 * A word u of 32 bits means the probability (u + 1/2) / 2^32. Let x in (-1, 1) be twice its
 * distance from 1/2, end = 1 - |x| (computed from the word: exact where it is small) and w = -log(1
 * - x^2) = -log(end (2 - end)). The normal number is x times a polynomial in w - 2.5 if w < 5
 * (|number| < 2.9), else in sqrt(w) - 3.4375. This is the form of Giles 2010, "Approximating the
 * erfinv function", with Chebyshev fits of sqrt(2) erfinv(x) / x computed for this file up to the
 * largest possible w (number 6.34). The relative error is at most 2e-6.
 *
 * log: x = m 2^e, m in [2/3, 4/3), log m = s q(s^2), s = (m - 1) / (m + 1), by its series. */
#ifndef ETUDE_BASE_NUMBERS_NORMAL_H
#define ETUDE_BASE_NUMBERS_NORMAL_H

#define ET_NORMAL_NEAR_END    5.0f
#define ET_NORMAL_NEAR_CENTRE 2.5f
#define ET_NORMAL_FAR_CENTRE  3.4375f

/* Highest power first. */
#define ET_NORMAL_TERMS 9
#define ET_NORMAL_NEAR                                                                             \
    {                                                                                              \
        3.19696804e-08f, 4.83978825e-07f, -4.88579604e-06f, -6.19474573e-06f, 0.000308741177f,     \
            -0.00177308282f, -0.0059076601f, 0.348802717f, 2.12331347f                             \
    }
#define ET_NORMAL_FAR                                                                              \
    {                                                                                              \
        6.77581998e-06f, -0.000258022263f, 0.000875104924f, -0.00137124344f, 0.00183948515f,       \
            -0.00327899879f, 0.00522497269f, 1.42401226f, 4.62806831f                              \
    }

#define ET_NORMAL_LOG_TERMS 6
#define ET_NORMAL_LOG                                                                              \
    {                                                                                              \
        2.0f / 11, 2.0f / 9, 2.0f / 7, 2.0f / 5, 2.0f / 3, 2.0f                                    \
    }
#define ET_NORMAL_LOG_FROM 1.33333333f /* m from here on is halved */
#define ET_NORMAL_LOG_2    0.69314718f

#endif
