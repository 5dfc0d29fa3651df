"""Drop-offs in Manhattan from files in the forms that the public ones have."""

from datetime import datetime

import numpy as np
import pytest
from matplotlib.path import Path as Outline

from dgpbench.data.cache import load_data
from dgpbench.data.catalogue import Entry, RemoteFile, Source, catalogue
from dgpbench.data.readers.source_formats import MANHATTAN, inside, read_rows
from dgpbench.errors import UserError

KAGGLE = (
    "id,vendor_id,pickup_datetime,dropoff_datetime,passenger_count,pickup_longitude,pickup_latitude,"
    "dropoff_longitude,dropoff_latitude,store_and_fwd_flag,trip_duration"
)
TLC_2015 = (
    "VendorID,tpep_pickup_datetime,tpep_dropoff_datetime,passenger_count,trip_distance,pickup_longitude,"
    "pickup_latitude,RateCodeID,store_and_fwd_flag,dropoff_longitude,dropoff_latitude,payment_type,fare_amount"
)
TLC_2013 = (
    "vendor_id, pickup_datetime, dropoff_datetime, passenger_count, trip_distance, pickup_longitude, "
    "pickup_latitude, rate_code, store_and_fwd_flag, dropoff_longitude, dropoff_latitude, payment_type"
)
TLC_2009 = (
    "vendor_name,Trip_Pickup_DateTime,Trip_Dropoff_DateTime,Passenger_Count,Trip_Distance,Start_Lon,Start_Lat,"
    "Rate_Code,store_and_forward,End_Lon,End_Lat,Payment_Type,Fare_Amt"
)
TLC_2017 = "VendorID,tpep_pickup_datetime,tpep_dropoff_datetime,trip_distance,PULocationID,DOLocationID"
TRIPS = [  # pick-up, drop-off, places; which are kept
    ("2015-06-10 08:30:59", "2015-06-10 08:45:00", (-73.98, 40.76, -73.96, 40.78), True),
    ("2015-06-13 23:10:00", "2015-06-13 23:30:00", (-73.99, 40.73, -74.00, 40.72), True),
    ("2015-06-10 08:30:00", "2015-06-10 08:45:00", (-73.98, 40.76, -73.80, 40.65), False),  # to the airport
    ("2015-06-10 08:30:00", "2015-06-10 08:45:00", (0, 0, -73.96, 40.78), False),  # no place
    ("2015-06-10 08:30:00", "2015-06-10 08:30:10", (-73.98, 40.76, -73.96, 40.78), False),  # ten seconds
    ("2015-06-10 08:30:00", "2015-06-10 08:45:00", ("", "", -73.96, 40.78), False),
]


def line(header, start, end, place):
    """A row of the file: the places where the header has them, anything elsewhere."""
    values = iter(place)
    cells = []
    for name in (name.strip().lower() for name in header.split(",")):
        if name.endswith("datetime"):
            cells.append(start if "pickup" in name else end)
        elif name.endswith(("itude", "_lon", "_lat")):
            cells.append(str(next(values)))
        else:
            cells.append("1")
    return ",".join(cells)


def write(path, header, trips=TRIPS, tail=""):
    path.write_text("\n".join([header, *(line(header, *trip[:3]) + tail for trip in trips)]) + "\n")
    return path


def read(path):
    parts = list(read_rows("taxi_places", [path], {"targets": 2}))
    return np.vstack([x for x, _ in parts]), np.vstack([y for _, y in parts])


@pytest.mark.parametrize("header, tail", [(KAGGLE, ""), (TLC_2015, ""), (TLC_2013, ",,"), (TLC_2009, "")])
def test_trips_of_every_form_of_the_file(tmp_path, header, tail):
    X, Y = read(write(tmp_path / "trips.csv", header, tail=tail))
    assert X.shape == (2, 6) and Y.shape == (2, 2)
    assert X[:, :2].tolist() == [[-73.98, 40.76], [-73.99, 40.73]]
    assert Y.tolist() == [[-73.96, 40.78], [-74.0, 40.72]]
    week = 2 * np.pi * datetime(2015, 6, 10).weekday() / 6
    clock = 2 * np.pi * (8 * 60 + 30) / 1440
    assert np.allclose(X[0, 2:], [np.sin(week), np.cos(week), np.sin(clock), np.cos(clock)])


def test_the_outline_of_manhattan():
    points = np.random.RandomState(0).uniform([-74.05, 40.68], [-73.88, 40.84], (4000, 2))
    assert np.array_equal(inside(points), Outline(MANHATTAN).contains_points(points))
    times_square, jfk, liberty = (-73.9855, 40.758), (-73.7781, 40.6413), (-74.0445, 40.6892)
    assert inside(np.array([times_square, jfk, liberty])).tolist() == [True, False, False]


@pytest.mark.parametrize(
    "header, trips, text",
    [
        ("a,b", [], "no column 'pickup_datetime' in the header; neither the taxi train.csv nor a month"),
        (TLC_2017, [], "this month has zones in place of places: take one of January 2009 to June 2016"),
        (TLC_2015, TRIPS[2:], "none of its 4 trips begins and ends in Manhattan; are longitudes"),
        (
            TLC_2015,
            [("yesterday", "2015-06-10 08:30:10", (-73.98, 40.76, -73.96, 40.78))],
            "a date or a coord",
        ),
        (
            TLC_2015,
            [("2015-06-10 08:30:10", "2015-06-10 08:40:10", ("west", 40.76, -73.96, 40.78))],
            "a date",
        ),
    ],
)
def test_bad_files_are_told_in_one_line(tmp_path, header, trips, text):
    with pytest.raises(UserError) as caught:
        read(write(tmp_path / "trips.csv", header, trips))
    assert text in str(caught.value) and "trips.csv" in str(caught.value) and "\n" not in str(caught.value)


def test_rows_cut_short_or_too_long_are_refused(tmp_path):
    for extra in ("1,2", ",".join("1" * 14)):
        path = write(tmp_path / "trips.csv", TLC_2015)
        path.write_text(path.read_text() + extra + "\n")
        with pytest.raises(UserError, match="line 8: .* columns where 13 are expected"):
            read(path)


def test_the_catalogue_knows_how_many_rows_there_are(tmp_path, paths):
    """Kaggle's file has 1,197,417 such trips: one of another size is another file. A month has any number."""
    folder = tmp_path / "datasets" / "nytaxi_manhattan"
    folder.mkdir(parents=True)
    write(folder / "train.csv", KAGGLE, TRIPS[:2] * 5)
    with pytest.raises(UserError, match="10 rows where dataset nytaxi_manhattan has 1197417"):
        load_data(catalogue()["nytaxi_manhattan"], paths)
    source = Source("manual", (RemoteFile("june.csv"),), "taxi_places", {"targets": 2})
    (tmp_path / "datasets" / "month").mkdir()
    write(tmp_path / "datasets" / "month" / "june.csv", TLC_2015, TRIPS * 5)
    data = load_data(Entry("month", sources=(source,)), paths)
    assert data.X.shape == (10, 6) and data.Y.shape == (10, 2)
